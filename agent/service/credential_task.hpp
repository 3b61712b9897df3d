#pragma once

#include "agent/io/async_lock.hpp"
#include "agent/service/application.hpp"
#include "agent/service/timers.hpp"

namespace service {

// Keeps the file's credentials fresh, each at its interval.
class credential_task {
public:
    // Both outlive this, and this outlives the io_context's run.
    credential_task(application&, timers&);

    // Runs until the stop.
    io::awaitable<void> run();

    // What is due is asked again: the file or the login changed.
    void wake() { wake_.set(); }

    // For a verb that fetches them itself.
    io::awaitable<io::async_lock::holder> take() { return lock_.acquire(); }

private:
    io::awaitable<std::chrono::milliseconds> fetch_due();

    application& app_;
    timers& timers_;
    io::async_lock lock_;
    io::async_event wake_;
    io::stop_event::subscription on_stop_;
};

}  // namespace service
