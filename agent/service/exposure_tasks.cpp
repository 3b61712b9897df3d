#include "agent/service/exposure_tasks.hpp"

#include "agent/io/async.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/schedule.hpp"

#include <algorithm>

namespace service {
namespace {

// Longer than any one wait within a step without hooks: the proof's patience, requests, keys, the disk.
constexpr std::chrono::minutes step_limit{10};

std::chrono::seconds longest_hooks(const policy::desired_state& desired, const std::string& exposure)
{
    std::chrono::seconds longest{0};
    for (const auto& e : desired.exposures) {
        if (e.name != exposure) continue;
        for (const auto& user : e.users) {
            std::chrono::seconds all{0};
            for (const auto& hook : user.hooks)
                all += hook.timeout;
            longest = std::max(longest, all);
        }
    }
    return longest;
}

}  // namespace

struct exposure_tasks::task {
    task(application& app, const std::string& exposure, reconcile::step_listener listener)
        : name(exposure),
          passes(app.world(), exposure, std::move(listener)),
          lock(app.executor()),
          wake(app.executor())
    {
    }

    std::string name;
    reconcile::exposure_pass passes;
    io::async_lock lock;
    io::async_event wake;
    bool passing = false;
    bool looked = false;
    std::chrono::steady_clock::time_point began;
};

exposure_tasks::exposure_tasks(application& app, timers& a, reconcile::step_listener on_step,
                               pass_listener on_pass)
    : app_(app),
      timers_(a),
      on_step_(std::move(on_step)),
      on_pass_(std::move(on_pass)),
      all_ended_(app.executor()),
      on_stop_(app.stop().on_request([this] { wake(); }))
{
}

exposure_tasks::~exposure_tasks() = default;

void exposure_tasks::follow(std::chrono::milliseconds delay)
{
    for (const auto& name : reconcile::all_exposures(app_.world())) {
        auto& place = tasks_[name];
        if (place) continue;
        place = std::make_unique<task>(app_, name, on_step_);
        ++running_;
        io::spawn(app_.executor(), "exposure " + name, run(*place, delay), app_.stop());
    }
}

void exposure_tasks::wake(const std::set<std::string>& exposures)
{
    for (auto& [name, each] : tasks_)
        if (exposures.empty() || exposures.contains(name)) each->wake.set();
}

// In the order of their names: two that take several never wait for each other.
io::awaitable<exposure_tasks::hold> exposure_tasks::take(std::set<std::string> exposures)
{
    hold taken;
    for (const auto& name : exposures) {
        const auto each = tasks_.find(name);
        if (each == tasks_.end()) continue;
        taken.locks_.push_back(co_await each->second->lock.acquire());
        taken.pins_.push_back(app_.world().pin_desired(name));
    }
    co_return taken;
}

bool exposure_tasks::stuck() const
{
    const auto now = std::chrono::steady_clock::now();
    return std::ranges::any_of(tasks_, [&](const auto& each) {
        const auto& t = *each.second;
        const auto limit = step_limit + longest_hooks(app_.desired(), t.name);
        return t.passing && now - std::max(t.began, progress_) > limit;
    });
}

bool exposure_tasks::looked() const
{
    return std::ranges::all_of(tasks_, [](const auto& each) { return each.second->looked; });
}

bool exposure_tasks::idle() const
{
    return std::ranges::none_of(tasks_, [](const auto& each) { return each.second->passing; });
}

io::awaitable<void> exposure_tasks::ended()
{
    while (running_ > 0) {
        all_ended_.reset();
        co_await all_ended_.wait();
    }
}

bool exposure_tasks::is_known(const std::string& exposure) const
{
    return reconcile::all_exposures(app_.world()).contains(exposure);
}

// Rests, rather than ends, while nobody knows the exposure: its lock stays the one lock of that name.
io::awaitable<void> exposure_tasks::run(task& t, std::chrono::milliseconds delay)
{
    co_await timers_.wait(delay, t.wake);
    while (!app_.stop().requested()) {
        t.wake.reset();
        if (is_known(t.name)) {
            const auto wait = co_await pass(t);
            if (app_.stop().requested()) break;
            co_await timers_.wait(wait, t.wake);
        } else {
            t.looked = true;
            co_await t.wake.wait();
        }
    }
    --running_;
    all_ended_.set();
}

io::awaitable<std::chrono::milliseconds> exposure_tasks::pass(task& t)
{
    reconcile::pass_outcome outcome;
    {
        const std::set<std::string> mine{t.name};
        const auto held = co_await take(mine);
        if (app_.stop().requested()) co_return std::chrono::milliseconds(0);
        t.began = std::chrono::steady_clock::now();
        t.passing = true;
        outcome = co_await t.passes.run(reconcile::pass_options());
        t.passing = false;
        t.looked = true;
    }
    const auto& exposures = app_.world().stored().exposures;
    const auto record = exposures.find(t.name);
    const auto failure = record == exposures.end() ? std::nullopt : record->second.failure;
    const auto wait = wait_after(outcome, failure, app_.desired().reconcile.interval, app_.clock().now());
    co_await on_pass_(t.name, std::chrono::steady_clock::now() - t.began);
    co_return wait;
}

}  // namespace service
