#pragma once

#include "policy/desired.hpp"
#include "policy/facts.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <vector>

// The rules of a user's life, in order: the first that finds something decides the user's next step.
// A new rule is one function in checks.cpp, one line in its table, one row in its test.

namespace policy {

// The next step of the user, or why there is none.
finding next_step(const facts&);

// What may be cleared up beside it: superseded, unused and surplus remote users. Steps and waits.
std::vector<finding> clearing_up(const facts&);

// When a generation that is left over may be deleted on the platform: retire_after counts from its own
// successor on, however often that was replaced since. Needs a user that the file names, whose
// current certificate is in use.
instant retires_at(const facts&, const generation&);

// --- What stands before a whole exposure or host: incidents and guards (design section 1.5). For the plan
// alone.

// What freezes everything about a user whose exposure is not asked: a cloned state directory, a clock that
// disagrees with the platform where the user lives. nullopt: neither.
std::optional<finding> guard_of(const stored_user&, const observed_state&, const stored_state&);

// Why nothing may be sent to an exposure now; healthy when its instance is READY, known and believed. Its
// action is the exposure-wide step that would change that.
finding guard_of(const desired_exposure&, const observed_state&, const stored_state&, duration settle,
                 instant now, const plan_options&);

// What the exposure is like now says nothing of a user that was made when the file meant another place.
bool lives_elsewhere(const stored_user&, const desired_exposure&);

}  // namespace policy
