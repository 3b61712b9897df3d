#pragma once

#include "policy/events.hpp"
#include "policy/plan.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// Failures remembered and the earliest next attempt. A table, not a formula: readable at three in the
// morning.

namespace policy {

// Remembers one more failure of the same thing. `wanted` is the entry's fingerprint; `expiry` that of the
// certificate in use: at least ten attempts fit into what is left of it.
failure_memory remember(const std::optional<failure_memory>& before, const failure&,
                        const std::string& wanted, std::optional<instant> expiry, instant now);

// When to try again; nullopt: at once, because nothing failed, or the entry has changed since, or the clock
// was set back to before the failure.
std::optional<instant> not_before(const std::optional<failure_memory>&, const std::string& wanted,
                                  instant now);

// True when some attempt waits for its time.
bool is_backing_off(const stored_user&);

// The pause after the n-th failure in a row while a person waits for the end; nullopt: they wait no longer.
std::optional<duration> short_wait(int attempt);

// True while the broker may still be told of the new user: that is waited for, and counts as no attempt.
bool is_granting(const failure&) noexcept;

// When a step that failed for the n-th time is tried again while a person waits; nullopt: its back-off
// counts.
std::optional<instant> soon_again(const failure&, int attempt, instant now);

// What an observation says of users that we have, where their records do not say so yet: the platform ends a
// certificate at another time.
std::map<user_name, std::vector<user_event>> observations(const stored_state&, const observed_state&,
                                                          const std::string& exposure);

// What a pass has come to, as the record does not say it yet: failures that are over, and what waits for a
// person, or does not any more.
std::vector<user_event> conclusions(const stored_user&, const decision&);
std::vector<exposure_event> conclusions(const stored_exposure&, const decision&);

}  // namespace policy
