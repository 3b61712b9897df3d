#pragma once

#include "agent/io/async.hpp"

#include <chrono>

// Port: wall time for decisions, waiting for the loop. The fake of the tests jumps instead of sleeping.

namespace io {

class clock {
public:
    virtual ~clock() = default;

    virtual policy::instant now() const = 0;

    // For back-offs and limits: no setting of the wall clock moves it.
    virtual std::chrono::steady_clock::time_point steady() const { return std::chrono::steady_clock::now(); }

    // Waits that long by the monotonic clock; errc::stopping as soon as a stop is requested.
    virtual task<void> sleep_for(std::chrono::milliseconds) = 0;
};

// The clock of the machine. Sleeps end when the stop is requested; they do not advance while the machine is
// suspended, so whoever waits for an instant sleeps in slices (policy::limits::wake_cap) and looks again.
class real_clock final : public clock {
public:
    explicit real_clock(stop_event& stop) : stop_(stop) {}

    policy::instant now() const override;
    task<void> sleep_for(std::chrono::milliseconds) override;

private:
    stop_event& stop_;
};

}  // namespace io
