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

// Compares configuration, platform and disk, and decides what to do next.
// Every lifecycle decision is made here. Pure: the same arguments give the same plan.

namespace policy {

struct plan_options {
    bool ignore_backoff = false;  // requested by a person: do not wait for back-offs
    bool accept_loss = false;     // a person confirmed that what vanished is gone, or a new owner
    std::string_view pace_of;     // the exposure that wake_at and waits_for_platform cover; empty: all
};

// The decision about a user or, if its user name is empty, about an exposure: `explain` shows it, `plan`
// lists it and `status` stores it.
struct decision {
    user_name name;
    reason why = reason::healthy;
    std::string sentence = {};
    bool blocked = false;                           // waits for a person; the sentence says why
    std::string next = {};                          // the next step, a contract word; empty: none
    std::optional<instant> next_at = std::nullopt;  // and when
    bool clears = false;                            // has cleanup to do, now or later

    bool operator==(const decision&) const = default;
};

// A remote user that belongs to no generation of ours, or no longer does.
struct unmanaged_user {
    std::string exposure;
    std::string remote_id;
    std::string name;
    std::optional<std::string> owner;  // from its marker
    bool keyless = false;              // our marker, but no key here: never used, never deleted automatically

    bool operator==(const unmanaged_user&) const = default;
};

struct plan_result {
    std::vector<action> actions;  // in execution order; per user one step and its cleanup
    std::vector<decision> users;
    std::vector<decision> exposures;
    std::vector<unmanaged_user> unmanaged;
    std::vector<decision> later;      // future rotations and deletions, each with its step and time
    bool waits_for_platform = false;  // something is IN PROGRESS: poll soon
    instant wake_at;                  // when time alone would change the plan, at most one interval away
};

// The desired state of a host being decommissioned: no users, no instances,
// and no limit that delays deletions.
desired_state leaving_state(desired_state);

// True when nothing on this host needs a key or the login any more.
bool is_decommissioned(const stored_state&);

// Exposures missing from `observed` were not looked at: only steps that need no observation are planned.
plan_result plan(const desired_state&, const observed_state&, const stored_state&, instant now,
                 plan_options = {});

// --- A decision with its evidence: the facts, the rule that applied, what comes next, what would change it.

struct explanation {
    policy::decision decision;
    std::vector<std::pair<std::string, std::string>> facts;  // name and value, in reading order
    std::vector<std::string> would_change;
};

explanation explain(const desired_state&, const observed_state&, const stored_state&, const plan_result&,
                    const user_name&, instant now);

}  // namespace policy
