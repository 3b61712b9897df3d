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

// The daemon's passes, one task per exposure: an exposure that hangs delays no other.

namespace service {

// How long to wait after a pass: until something in progress is checked again, the plan changes with time
// alone, or the next scheduled pass is due. An exposure that could not be observed waits for its
// back-off.
std::chrono::milliseconds wait_after(const reconcile::pass_outcome&,
                                     const std::optional<policy::failure_memory>& exposure_failure,
                                     policy::duration until_next, policy::instant now);

// How long a service waits before its first pass, so that a fleet that starts at the same moment does not
// send its requests at the same moment: fixed for this seed, at most start_spread; zero if something is due.
inline constexpr std::chrono::milliseconds start_spread = std::chrono::minutes(2);
std::chrono::milliseconds start_delay(const status_view&, const std::string& seed);

// Called after every scheduled pass of the daemon.
using pass_listener = std::function<io::awaitable<void>(std::string exposure, std::chrono::duration<double>)>;

class exposure_tasks {
public:
    // The arguments must outlive this object, and it must outlive the group's tasks.
    exposure_tasks(application&, task_group&, timers&, reconcile::step_listener, pass_listener);
    ~exposure_tasks();

    // Starts tasks for all exposures in the configuration, and those that the private store still has users
    // of; new tasks begin after the delay. Tasks of other exposures stay idle.
    void follow(std::chrono::milliseconds delay);

    // Starts a pass of these exposures (empty: all) as soon as possible.
    void wake(const std::set<std::string>& exposures = {});

    // Call when a step of this exposure began or ended, or one of its requests was answered.
    void progress(const std::string& exposure);
    // True while a pass has made no progress for longer than all its limits allow.
    bool stuck() const;

    // True once every exposure has been observed, or an attempt was made.
    bool observed() const;
    bool idle() const;  // no pass is running

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
