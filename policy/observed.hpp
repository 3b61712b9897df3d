#pragma once

#include "policy/naming.hpp"
#include "policy/result.hpp"

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

}  // namespace policy
