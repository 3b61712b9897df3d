#pragma once

#include "agent/io/async_lock.hpp"
#include "agent/reconcile/pass.hpp"
#include "agent/service/application.hpp"
#include "agent/service/timers.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

// One task an exposure: pass after pass, each at its own pace, so that a dead one delays nobody.

namespace service {

// Told after every pass of the daemon's own.
using pass_listener = std::function<io::awaitable<void>(std::string exposure, std::chrono::duration<double>)>;

class exposure_tasks {
public:
    // All of them outlive this, and this outlives the io_context's run.
    exposure_tasks(application&, timers&, reconcile::step_listener, pass_listener);
    ~exposure_tasks();

    // Tasks for all exposures that the file names, or the private store still knows users of; those that are
    // new begin after the delay. The others rest.
    void follow(std::chrono::milliseconds delay);

    // These (empty: all) begin a pass as soon as they can.
    void wake(const std::set<std::string>& exposures = {});

    // These exposures for one's own work: no pass and no other verb meanwhile. They go by the configuration
    // as it is now.
    class hold;
    io::awaitable<hold> take(std::set<std::string> exposures);

    // A step ended, a request was answered: whoever waits for it is not stuck.
    void progress() noexcept { progress_ = std::chrono::steady_clock::now(); }
    // True while a pass has gone without any progress for longer than all its limits allow.
    bool stuck() const;

    // Every exposure has been looked at once, or was tried to.
    bool looked() const;
    bool idle() const;  // no pass is under way

    // After a stop: until all tasks have ended.
    io::awaitable<void> ended();

private:
    struct task;

    io::awaitable<void> run(task&, std::chrono::milliseconds delay);
    io::awaitable<std::chrono::milliseconds> pass(task&);
    bool is_known(const std::string& exposure) const;

    application& app_;
    timers& timers_;
    reconcile::step_listener on_step_;
    pass_listener on_pass_;
    std::map<std::string, std::unique_ptr<task>> tasks_;
    std::chrono::steady_clock::time_point progress_;
    std::size_t running_ = 0;
    io::async_event all_ended_;
    io::stop_event::subscription on_stop_;
};

class exposure_tasks::hold {
public:
    hold(hold&&) = default;

private:
    friend class exposure_tasks;
    hold() = default;

    std::vector<io::async_lock::holder> locks_;
    std::vector<reconcile::world::pin> pins_;  // end before the locks
};

}  // namespace service
