#pragma once

#include "agent/io/awaitable.hpp"

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

}  // namespace io
