#pragma once

#include "agent/reconcile/pass.hpp"
#include "agent/service/application.hpp"
#include "agent/service/status_view.hpp"
#include "agent/service/tasks.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

// The daemon's passes, each exposure at its own pace: a dead one delays nobody else.

namespace service {

// How long to wait after a pass: until something on its way is looked at again, the plan changes by time
// alone, or the next pass of the schedule is due. An exposure that could not be looked at waits for its
// back-off.
std::chrono::milliseconds wait_after(const reconcile::pass_outcome&,
                                     const std::optional<policy::failure_memory>& exposure_failure,
                                     policy::duration until_next, policy::instant now);

// How long a service waits at its start before the first pass, so that a fleet that comes back at once does
// not ask at once: fixed for this seed, at most start_spread; none when something is due.
inline constexpr std::chrono::milliseconds start_spread = std::chrono::minutes(2);
std::chrono::milliseconds start_delay(const status_view&, const std::string& seed);

// Told after every pass of the daemon's own.
using pass_listener = std::function<io::awaitable<void>(std::string exposure, std::chrono::duration<double>)>;

class exposure_tasks {
public:
    // All of them outlive this, and this outlives the group's tasks.
    exposure_tasks(application&, task_group&, timers&, reconcile::step_listener, pass_listener);
    ~exposure_tasks();

    // Tasks for all exposures that the file names, or the private store still knows users of; those that are
    // new begin after the delay. The others rest.
    void follow(std::chrono::milliseconds delay);

    // These (empty: all) begin a pass as soon as they can.
    void wake(const std::set<std::string>& exposures = {});

    // A step of this exposure ended, or one of its requests was answered.
    void progress(const std::string& exposure);
    // True while a pass has gone without any progress for longer than all its limits allow.
    bool stuck() const;

    // Every exposure has been observed once, or was tried to.
    bool observed() const;
    bool idle() const;  // no pass is under way

private:
    struct task;

    task& place_of(const std::string& exposure);
    io::awaitable<std::chrono::milliseconds> pass(task&);

    application& app_;
    task_group& group_;
    timers& timers_;
    reconcile::step_listener on_step_;
    pass_listener on_pass_;
    std::map<std::string, std::unique_ptr<task>> tasks_;
    progress_watch passes_;
};

}  // namespace service
