#pragma once

#include "agent/service/application.hpp"
#include "agent/service/tasks.hpp"

// The login's heartbeat, and what is said about it: refresh tokens die of idleness.

namespace service {

// identity.publish: hands the access token to the configured command when it is a new one (always: or not). A
// failure is logged, counted in the login's status, and repeated by the daemon and by every pass.
io::task<void> publish_token(application&, bool always = false);

class login_watch {
public:
    // All of them outlive this, and this outlives the group's tasks. `gained` is called when there is a login
    // again.
    login_watch(application&, task_group&, timers&, std::function<void()> gained);

    void start() { task_.start(); }

    // Checks the login, and reports what has changed since the last check.
    io::awaitable<void> check();

    // As of the last check.
    const platform::login_status& status() const { return status_; }

    // The configuration or the login changed: when to refresh is asked again.
    void wake() { task_.wake(); }

private:
    io::awaitable<std::chrono::milliseconds> refresh_if_due();
    io::awaitable<std::chrono::milliseconds> until_due();
    io::awaitable<void> publish();

    application& app_;
    std::function<void()> gained_;
    periodic_task task_;
    platform::login_status status_;
    bool checked_ = false;
    bool published_ = false;    // once since the start
    int publish_failures_ = 0;  // in a row
    std::chrono::steady_clock::time_point next_publish_;
};

}  // namespace service
