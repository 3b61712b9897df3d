#pragma once

#include "policy/events.hpp"
#include "policy/plan.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// Recorded failures and the earliest next attempt.
// A table rather than a formula, so that the delays can be read off at a glance.

namespace policy {

// Records another failure of the same step. `wanted` is the entry's fingerprint, `expiry` that of the
// certificate in use: at least ten attempts fit into its remaining validity.
failure_memory remember(const std::optional<failure_memory>& before, const failure&,
                        const std::string& wanted, std::optional<instant> expiry, instant now);

// When to try again; nullopt: now, because nothing failed, the entry has changed since, or the clock was set
// back to before the failure.
std::optional<instant> not_before(const std::optional<failure_memory>&, const std::string& wanted,
                                  instant now);

// The failures in a record; the one of the step towards a new certificate comes last.
std::vector<const failure_memory*> failures_in(const stored_user&);

// True while any attempt is backing off.
bool is_backing_off(const stored_user&);

// The delay after the n-th consecutive failure while a person waits; nullopt: stop waiting.
std::optional<duration> short_wait(int attempt);

// True for a failure that is waited for and not counted as an attempt: the broker may not have learned of the
// new user yet, or the platform limits the rate.
bool only_waits(errc, retry) noexcept;

// How many attempts in the record failed, whoever made them.
int failed_attempts(const stored_user&);

// When to repeat a step that failed for the n-th time while a person waits;
// nullopt: after the normal back-off.
std::optional<instant> soon_again(const failure&, int attempt, instant now);

// What an observation adds to the records of known users:
// the platform now reports another expiration date.
std::map<user_name, std::vector<user_event>> observations(const stored_state&, const observed_state&,
                                                          const std::string& exposure);

// What the result of a pass adds to the record:
// failures that are over, and blocks that a person must resolve or that are resolved.
std::vector<user_event> conclusions(const stored_user&, const decision&);
std::vector<exposure_event> conclusions(const stored_exposure&, const decision&);

// What a login adds to the record: the failures that it ends are over, so what they held back is due.
std::optional<user_event> after_login(const stored_user&);
std::optional<exposure_event> after_login(const stored_exposure&);

}  // namespace policy
