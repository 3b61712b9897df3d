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

// What the platform has, as one look at every exposure found it (platform-api sections 2.3 and 2.4).

namespace policy {

// failed: the word says so (FAILED, ERROR). Any other unknown word counts as in progress.
enum class remote_status { ready, in_progress, failed };

struct remote_instance {
    std::string id;
    std::string name;
    remote_status status = remote_status::in_progress;
    std::string status_text;  // as sent
    std::optional<business_group> group;
    group_fields fields = group_fields::auto_;  // the names under which it shows the group; auto_: not seen

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
    bool expiration_unreadable = false;  // it was there, but in no spelling that we know
    std::string description;
    std::optional<marker> mark;

    bool operator==(const remote_user&) const = default;
};

// One exposure as it answered. A failure leaves the rest empty and says nothing about absence.
struct observed_exposure {
    instant looked_at;                        // when it was asked
    std::optional<failure> error;             // the look failed: nothing of this exposure is known
    std::vector<remote_instance> instances;   // zero or one; more is an incident
    std::vector<remote_user> users;           // of the one instance
    std::set<std::string> confirmed_missing;  // known ids that the list lacks and whose single read says 404
    std::set<std::string> inconsistent;       // known ids that the list has and whose single read says 404
    bool listed = true;    // false: known users were read by id, and nothing else was asked
    bool cut_off = false;  // signs of paging: the list lacks users

    // A user that is not shown is not there.
    bool is_complete() const noexcept { return listed && !cut_off; }

    bool operator==(const observed_exposure&) const = default;
};

struct observed_state {
    std::map<std::string, observed_exposure> exposures;  // by name in the configuration
    std::map<std::string, duration> clock_ahead;  // our clock minus the platform's Date header, by base_url
};

// --- What a pass asks the platform (contract sections 9 and 10): its own users by id, or the list of all
// users of the tenant. A pass in which nothing must be found or confirmed costs what is ours, not what the
// tenant has.

struct inquiry {
    std::string instance = {};          // the known one; empty: none
    std::vector<std::string> ids = {};  // of our users that the platform should have
    bool list = true;                   // by id is not enough
    bool due = false;                   // it was not fetched lately: when it is, is worth keeping
    bool others = false;                // of the list, users of other owners are wanted as well
};

// The list is needed where no instance is known, with more than limits::read_by_id users, once a day, while
// the outcome of a POST is open, once its late double would show, after a deletion that failed, and when a
// user is to be removed.
// interval: of passes that repeat; a list that is overdue then waits for its turn within
// limits::list_catch_up, so that hosts that come back at once do not fetch it at once. None: now or never.
inquiry inquiry_of(const desired_state&, const desired_exposure&, const stored_state&, instant now,
                   std::optional<duration> interval = std::nullopt);

// The first instant after this one of a schedule whose phase the owner and the exposure decide: a fleet
// spreads by itself, also after all its hosts came back at once. Schedules whose periods divide each other
// coincide.
instant next_turn(const std::string& owner, const std::string& exposure, duration period, instant after);

// When the list is due again after it was fetched: once in 24 h.
instant next_list_after(const std::string& owner, const std::string& exposure, instant fetched);

// --- Whether the unit that a hook restarts or reloads can hold the certificate that was replaced.
// systemctl's exit code does not say: `try-restart` returns 0 for a unit that failed, and for one that dies
// right after its start.

// What `systemctl show` says of a unit, as it is printed; all empty: nothing is known.
struct unit_facts {
    std::string active_state;   // active, reloading, inactive, failed, activating, deactivating
    std::string sub_state;      // e.g. running, auto-restart
    std::string result;         // why it failed, e.g. exit-code
    std::string invocation_id;  // another with every start

    bool operator==(const unit_facts&) const = default;
};

// What is wrong with the unit after its hook, as the end of a sentence; none: it was started after the switch
// (or reloaded, which is its own affair), or is not running and reads the certificate when it is started.
std::optional<std::string> not_served(const unit_facts& before, const unit_facts& after, bool restarted);

}  // namespace policy
