#pragma once

#include "policy/action.hpp"
#include "policy/desired.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Compares what the file wants, what the platform has and what the disk holds, and says what to do next.
// The one place of every lifecycle decision. Pure: the same arguments give the same plan.

namespace policy {

struct plan_options {
    bool ignore_backoff = false;  // a person asked: attempts that wait for their time are made now
    bool accept_loss = false;     // a person confirmed that what vanished is gone, or that owner was changed
    std::string_view pace_of;     // the exposure that wake_at and waits_for_platform are about; empty: all
};

// What was decided about a user, or (its name empty) about a whole exposure: what `explain` shows, `plan`
// lists and `status` keeps.
struct decision {
    user_name name;
    reason why = reason::healthy;
    std::string sentence = {};
    bool blocked = false;                           // waits for a person; the sentence says for what
    std::string next = {};                          // what happens next, a contract word; empty: nothing
    std::optional<instant> next_at = std::nullopt;  // and when
    bool clears = false;                            // something is to be cleared up beside it, now or later

    bool operator==(const decision&) const = default;
};

// A remote user that is not (or no longer) of a generation that we hold.
struct unmanaged_user {
    std::string exposure;
    std::string remote_id;
    std::string name;
    std::optional<std::string> owner;  // of its marker
    bool keyless = false;              // our marker, but no key here: never used, never deleted by itself

    bool operator==(const unmanaged_user&) const = default;
};

struct plan_result {
    std::vector<action> actions;  // in the order to perform them; for one user, one step and its clearing up
    std::vector<decision> users;
    std::vector<decision> exposures;
    std::vector<unmanaged_user> unmanaged;
    std::vector<decision> later;      // rotations and deletions to come, each with its step and time
    bool waits_for_platform = false;  // something is IN PROGRESS: look again soon
    instant wake_at;                  // when the plan would change by time alone, at most an interval away
};

// What the file wants of a host that is being decommissioned: no user and no instance, and no limit holds up
// the deletions.
desired_state leaving_state(desired_state);

// Nothing on this host needs a key or the login any more.
bool is_decommissioned(const stored_state&);

// Exposures that `observed` lacks were not looked at: only what the disk alone decides is planned for them.
plan_result plan(const desired_state&, const observed_state&, const stored_state&, instant now,
                 plan_options = {});

// --- A decision with its evidence: the facts, the rule that fired, what comes next, what would change it.

struct explanation {
    policy::decision decision;
    std::vector<std::pair<std::string, std::string>> facts;  // name and value, in the order to read them
    std::vector<std::string> would_change;
};

explanation explain(const desired_state&, const observed_state&, const stored_state&, const plan_result&,
                    const user_name&, instant now);

}  // namespace policy
