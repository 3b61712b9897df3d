#include "agent/service/tasks.hpp"

#include "agent/io/async.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

namespace service {

struct task_group::state {
    explicit state(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}

    std::size_t running = 0;
    io::async_event changed;
};

task_group::task_group(boost::asio::any_io_executor executor, io::stop_event& stop)
    : executor_(executor), stop_(stop), state_(std::make_shared<state>(executor))
{
}

bool task_group::start(std::string name, io::awaitable<void> work)
{
    if (stop_.requested()) return false;
    struct place {
        explicit place(std::shared_ptr<state> s) : in(std::move(s)) { ++in->running; }
        place(place&& other) noexcept = default;
        ~place()
        {
            if (!in) return;
            --in->running;
            in->changed.set();
        }
        std::shared_ptr<state> in;
    };
    // destroyed with the task: when it ends, when it throws, or with a frame that never ran
    const auto counted = [](io::awaitable<void> job, place taken) -> io::awaitable<void> {
        const auto held = std::move(taken);
        co_await std::move(job);
    };
    io::spawn(executor_, std::move(name), counted(std::move(work), place(state_)), stop_);
    return true;
}

io::awaitable<void> task_group::ended()
{
    const auto kept = state_;
    while (kept->running > 0) {
        kept->changed.reset();
        co_await kept->changed.wait();
    }
}

timers::timers(boost::asio::any_io_executor executor, io::stop_event& stop, std::chrono::milliseconds slice,
               std::function<void()> at_each, std::function<wall::time_point()> wall_now)
    : timer_(std::move(executor)),
      stop_(stop),
      slice_(slice),
      at_each_(std::move(at_each)),
      wall_now_(std::move(wall_now)),
      on_stop_(stop.on_request([this] { wake_all(); }))
{
}

void timers::wake_all()
{
    for (auto& each : waiting_)
        each.event->set();
    timer_.cancel();
}

io::awaitable<void> timers::wait(std::chrono::milliseconds duration, io::async_event& event)
{
    if (event.is_set() || stop_.requested()) co_return;
    const entry here{
        .steady_due = steady::now() + duration, .wall_due = wall_now_() + duration, .event = &event};
    const auto after =
        std::ranges::find_if(waiting_, [&](const entry& each) { return here.steady_due < each.steady_due; });
    const auto place = waiting_.insert(after, here);
    if (place->steady_due < timer_.expiry()) timer_.cancel();
    co_await event.wait();
    waiting_.erase(place);
}

io::awaitable<void> timers::run()
{
    auto tick = steady::now() + slice_;
    while (!stop_.requested()) {
        timer_.expires_at(std::min(tick, next()));
        co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
        if (stop_.requested()) co_return;
        for (auto& each : waiting_)
            if (is_over(each)) each.event->set();
        if (steady::now() < tick) continue;
        tick = steady::now() + slice_;
        at_each_();
    }
}

bool timers::is_over(const entry& e) const
{
    return steady::now() >= e.steady_due || wall_now_() >= e.wall_due;
}

timers::steady::time_point timers::next() const
{
    const auto first =
        std::ranges::find_if(waiting_, [](const entry& each) { return !each.event->is_set(); });
    return first == waiting_.end() ? steady::time_point::max() : first->steady_due;
}

progress_watch::mark::mark(progress_watch& all, std::string name, std::chrono::steady_clock::duration limit,
                           time_point now)
    : all_(all), place_(all.under_way_.insert(all.under_way_.end(), {std::move(name), limit, now}))
{
}

void progress_watch::progress(const std::string& name, time_point now)
{
    for (auto& each : under_way_)
        if (each.name == name) each.progress = now;
}

bool progress_watch::stuck(time_point now) const
{
    return std::ranges::any_of(under_way_,
                               [&](const auto& each) { return now - each.progress > each.limit; });
}

periodic_task::periodic_task(task_group& group, timers& t, std::string name, round r)
    : group_(group), timers_(t), name_(std::move(name)), round_(std::move(r)), wake_(group.executor())
{
}

void periodic_task::start(std::chrono::milliseconds delay)
{
    group_.start(name_, run(delay));
}

io::awaitable<void> periodic_task::run(std::chrono::milliseconds delay)
{
    if (delay > delay.zero()) co_await timers_.wait(delay, wake_);
    while (!group_.stopping()) {
        wake_.reset();
        const auto wait = co_await round_();
        co_await timers_.wait(wait, wake_);
    }
}

}  // namespace service
