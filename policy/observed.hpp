#pragma once

#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/stored.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// What the platform has, as observed once per exposure (platform-api sections 2.3 and 2.4).

namespace policy {

// failed: FAILED or ERROR. Any other unknown status counts as in progress.
enum class remote_status { ready, in_progress, failed };

struct remote_instance {
    std::string id;
    std::string name;
    remote_status status = remote_status::in_progress;
    std::string status_text;  // as sent
    std::optional<business_group> group;
    group_fields fields = group_fields::auto_;  // field names under which it shows the group; auto_: not seen

    bool operator==(const remote_instance&) const = default;
};

struct remote_user {
    std::string id;
    std::string name;
    remote_status status = remote_status::in_progress;
    std::string status_text;  // as sent
    std::string consumer_group;
    std::string contact;
    std::optional<business_group> group;
    std::string created_by;
    std::optional<instant> creation_date;
    std::optional<instant> expiration_date;
    bool expiration_unreadable = false;  // present, but in no spelling that we know
    std::string description;
    std::optional<marker> mark;

    bool operator==(const remote_user&) const = default;
};

// One exposure as observed. After a failure the rest is empty and says nothing about absence.
struct observed_exposure {
    instant observed_at;                      // when it was observed
    std::optional<failure> error;             // the observation failed: nothing is known about this exposure
    std::vector<remote_instance> instances;   // zero or one; more is an incident
    std::vector<remote_user> users;           // of the one instance
    std::set<std::string> confirmed_missing;  // known ids not in the list that answer 404 when read by id
    std::set<std::string> inconsistent;       // known ids in the list that answer 404 when read by id
    bool listed = true;                       // false: only known users were read, by id
    bool cut_off = false;                     // signs of paging: the list is incomplete

    // True when a user that is not shown does not exist.
    bool is_complete() const noexcept { return listed && !cut_off; }

    bool operator==(const observed_exposure&) const = default;
};

struct observed_state {
    std::map<std::string, observed_exposure> exposures;  // by name in the configuration
    std::map<std::string, duration> clock_ahead;  // our clock minus the platform's Date header, by base_url
};

// --- What a pass asks the platform (contract sections 9 and 10): its own users by id, or the list of all
// users of the tenant. A pass that has nothing to find or confirm costs in proportion to our users, not to
// those of the tenant.

struct inquiry {
    std::string instance = {};          // the known instance; empty: none
    std::vector<std::string> ids = {};  // our users that should exist on the platform
    bool list = true;                   // reading by id is not enough
    bool due = false;                   // the list is overdue: record when it is fetched
    bool others = false;                // the list must include other owners' users
    std::optional<instant> next_list = {};  // without `list`: when the next one is due
};

// The list is needed when no instance is known, with more than limits::read_by_id users, once a day, while
// the outcome of a POST is unknown, once its late duplicate would be listed, after a failed deletion, and
// when a user is to be removed.
// previous_pass: of a schedule that repeats them, or when that schedule began. An overdue list is then
// fetched by the first pass after its daily slot or after a slot within limits::list_catch_up, so that hosts
// that come back together do not all fetch it at once. nullopt: a single pass, no waiting.
inquiry inquiry_of(const desired_state&, const desired_exposure&, const stored_state&, instant now,
                   std::optional<instant> previous_pass = std::nullopt);

// The next slot after this instant, with a phase derived from owner and exposure: this spreads a
// fleet even after all its hosts came back together. Slots of periods that divide each other
// coincide.
instant next_turn(const std::string& owner, const std::string& exposure, duration period, instant after);

// When the list is next due after a fetch: once in 24 h.
instant next_list_after(const std::string& owner, const std::string& exposure, instant fetched);

// --- Whether the unit that a hook restarts or reloads may still hold the replaced certificate. systemctl's
// exit code does not tell: `try-restart` returns 0 for a failed unit, and for one that dies right after its
// start.

// A unit's state as printed by `systemctl show`; all empty: unknown.
struct unit_facts {
    std::string active_state;   // active, reloading, inactive, failed, activating, deactivating
    std::string sub_state;      // such as running, auto-restart
    std::string result;         // why it failed, such as exit-code
    std::string invocation_id;  // changes with every start

    bool operator==(const unit_facts&) const = default;
};

// What is wrong with the unit after its hook, as the end of a sentence; nullopt: it was started after the
// switch or reloaded (its own responsibility), or is not running and reads the certificate when started.
std::optional<std::string> not_served(const unit_facts& before, const unit_facts& after, bool restarted);

}  // namespace policy
