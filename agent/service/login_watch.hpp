#pragma once

#include "agent/service/application.hpp"
#include "agent/service/tasks.hpp"

// Keeps the login alive, since unused refresh tokens expire, and reports changes of its status.

namespace service {

// identity.publish: passes a new access token (always: any) to the configured command. A failure is logged,
// counted in the login's status, and retried by the daemon and by every pass.
io::task<void> publish_token(application&, bool always = false);

class login_watch {
public:
    // The arguments must outlive this object, and it must outlive the group's tasks. `gained` is called when
    // a lost login is back.
    login_watch(application&, task_group&, timers&, std::function<void()> gained);

    void start() { task_.start(); }

    // Checks the login, and reports what has changed since the last check.
    io::awaitable<void> check();

    // As of the last check.
    const platform::login_status& status() const { return status_; }

    // Call after a change of the configuration or the login: determines again when to refresh.
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
