#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/stop_event.hpp"

namespace io {

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
