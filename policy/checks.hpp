#pragma once

#include "policy/desired.hpp"
#include "policy/facts.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <vector>

// The rules of a user's life cycle, in order: the first that applies decides the next step.
// A new rule is one function in checks.cpp, one line in its table and one row in its test.

namespace policy {

// The user's next step, or why there is none.
finding next_step(const facts&);

// Cleanup alongside that step: superseded, unused and surplus remote users. Returns actions and waits.
std::vector<finding> clearing_up(const facts&);

// When a leftover generation may be deleted on the platform: retire_after counts from its direct successor,
// even if that was replaced in turn. Requires that the configuration names the user and that its current
// certificate is in use.
instant retires_at(const facts&, const generation&);

// --- Guards for a whole exposure or host: incidents and safety limits (design section 1.6).
// Only the plan uses them.

// What freezes a user whose exposure is not observed: a cloned state directory, or a clock that disagrees
// with the platform where the user lives. nullopt: neither.
std::optional<finding> guard_of(const stored_user&, const observed_state&, const stored_state&);

// Why nothing may be sent to an exposure now; healthy when its instance is READY, known and plausible.
// The finding's action is the exposure-wide step that would change that.
finding guard_of(const desired_exposure&, const observed_state&, const stored_state&, duration settle,
                 instant now, const plan_options&);

// True when the user was created at another address or tenant, so that the exposure says nothing about it.
bool lives_elsewhere(const stored_user&, const desired_exposure&);

}  // namespace policy
