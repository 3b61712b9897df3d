#pragma once

#include "agent/io/async.hpp"

#include <chrono>

// Port: wall clock time for decisions, and sleeping. The fake in the tests jumps instead of sleeping.

namespace io {

class clock {
public:
    virtual ~clock() = default;

    virtual policy::instant now() const = 0;

    // For back-offs and time limits: unaffected by changes to the wall clock.
    virtual std::chrono::steady_clock::time_point steady() const { return std::chrono::steady_clock::now(); }

    // Sleeps by the monotonic clock; errc::stopping as soon as a stop is requested.
    virtual task<void> sleep_for(std::chrono::milliseconds) = 0;
};

// The host's clock. Sleeps end on a stop request and do not advance while the host is suspended, so to wait
// for an instant, sleep in slices (policy::limits::wake_cap) and check the time again.
class real_clock final : public clock {
public:
    explicit real_clock(stop_event& stop) : stop_(stop) {}

    policy::instant now() const override;
    task<void> sleep_for(std::chrono::milliseconds) override;

private:
    stop_event& stop_;
};

}  // namespace io
