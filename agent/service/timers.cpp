#include "agent/service/timers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

namespace service {

timers::timers(boost::asio::any_io_executor executor, std::chrono::milliseconds slice,
               std::function<void()> at_each, std::function<wall::time_point()> wall_now)
    : timer_(std::move(executor)), slice_(slice), at_each_(std::move(at_each)), wall_now_(std::move(wall_now))
{
}

io::awaitable<void> timers::wait(std::chrono::milliseconds duration, io::async_event& event)
{
    if (event.is_set()) co_return;
    const auto place = waiting_.insert(
        waiting_.end(),
        {.steady_due = steady::now() + duration, .wall_due = wall_now_() + duration, .event = &event});
    if (place->steady_due < timer_.expiry()) timer_.cancel();
    co_await event.wait();
    waiting_.erase(place);
}

io::awaitable<void> timers::run(io::stop_event& stop)
{
    const auto subscription = stop.on_request([this] { timer_.cancel(); });
    auto tick = steady::now() + slice_;
    while (!stop.requested()) {
        timer_.expires_at(std::min(tick, next()));
        co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
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
    auto first = steady::time_point::max();
    for (const auto& each : waiting_)
        if (!each.event->is_set()) first = std::min(first, each.steady_due);
    return first;
}

}  // namespace service
