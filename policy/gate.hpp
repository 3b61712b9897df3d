#pragma once

#include "policy/action.hpp"
#include "policy/desired.hpp"
#include "policy/observed.hpp"
#include "policy/plan.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <string>

// What stands before a whole exposure or host: incidents and guards (design section 1.5). For the plan alone.

namespace policy {

// Why nothing may be sent to an exposure now; healthy when its instance is READY, known and believed.
struct gate {
    reason why = reason::healthy;
    std::string sentence;
    bool blocked = false;
    std::optional<action> act;     // exposure-wide step that would open it
    std::optional<instant> until;  // when it may open by time alone
    bool polls = false;
    bool shut = false;  // nothing at all may change, not even on this host

    bool open() const { return why == reason::healthy; }
};

// What shuts everything about a user whose exposure is not asked: a cloned state directory, a clock that
// disagrees with the platform where the user lives. nullopt: neither.
std::optional<gate> guard_of(const stored_user&, const observed_state&, const stored_state&);

gate gate_of(const desired_exposure&, const observed_state&, const stored_state&, duration settle,
             instant now, const plan_options&);

// What the exposure is like now says nothing of a user that was made when the file meant another place.
bool lives_elsewhere(const stored_user&, const desired_exposure&);

}  // namespace policy
