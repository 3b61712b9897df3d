#pragma once

#include "agent/reconcile/pass.hpp"
#include "agent/service/status_view.hpp"

#include <chrono>
#include <optional>
#include <string>

// When the daemon does what. Pure.

namespace service {

// How long to wait after a pass: until something on its way is looked at again, the plan changes by time
// alone, or the interval is over. An exposure that could not be looked at waits for its back-off.
std::chrono::milliseconds wait_after(const reconcile::pass_outcome&,
                                     const std::optional<policy::failure_memory>& exposure_failure,
                                     policy::duration interval, policy::instant now);

// How long a service waits at its start before the first look, so that a fleet that comes back at once does
// not ask at once: fixed for this seed, at most start_spread; none when something is due.
inline constexpr std::chrono::milliseconds start_spread = std::chrono::seconds(30);
std::chrono::milliseconds start_delay(const status_view&, const std::string& seed);

// Joins a burst of events: acts once it has been quiet for a while, or has lasted too long.
class debounce {
public:
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr auto quiet = std::chrono::milliseconds(200);
    static constexpr auto longest = std::chrono::seconds(2);

    void happened(time_point now);

    // When to act; none: nothing happened.
    std::optional<time_point> due() const noexcept { return due_; }
    void done() noexcept { due_.reset(); }

    // The burst under way is not waited for longer than this.
    time_point latest() const noexcept { return first_ + longest; }

private:
    std::optional<time_point> due_;
    time_point first_;
};

}  // namespace service
