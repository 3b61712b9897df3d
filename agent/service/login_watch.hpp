#pragma once

#include "agent/service/application.hpp"
#include "agent/service/timers.hpp"

// The login's heartbeat, and what is said about it: refresh tokens die of idleness.

namespace service {

// identity.publish: hands the access token to the configured command when it is a new one (always: or not). A
// failure is logged, counted in the login's status, and repeated by the daemon and by every pass.
io::task<void> publish_token(application&, bool always = false);

class login_watch {
public:
    // Both outlive this, and this outlives the io_context's run. `gained` is called when there is a login
    // again.
    login_watch(application&, timers&, std::function<void()> gained);

    // Runs until the stop.
    io::awaitable<void> run();

    // Looks at how the login stands, and says what has changed since the last look.
    io::awaitable<void> look();

    // Before the program ends: an exchange under way is awaited, and tokens that the disk has refused are
    // written, however long that takes within a minute.
    io::awaitable<void> save();

    // As of the last look.
    const platform::login_status& status() const { return status_; }

    // The configuration or the login changed: when to refresh is asked again.
    void wake() { wake_.set(); }

private:
    io::awaitable<std::chrono::milliseconds> until_due();
    io::awaitable<void> publish();

    application& app_;
    timers& timers_;
    std::function<void()> gained_;
    io::async_event wake_;
    io::stop_event::subscription on_stop_;
    platform::login_status status_;
    bool looked_ = false;
    bool published_ = false;    // once since the start
    int publish_failures_ = 0;  // in a row
    std::chrono::steady_clock::time_point next_publish_;
};

}  // namespace service
