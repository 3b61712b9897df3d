#pragma once

#include "policy/desired.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <string>
#include <vector>

// The state of each user, from the disk alone, for `status`, metrics and alerts (contract section 4).

namespace policy {

enum class user_state { absent, issuing, valid, due, expired, failing, blocked, removing };
enum class deploy_state { none, done, pending, failed };

BOOST_DESCRIBE_ENUM(user_state, absent, issuing, valid, due, expired, failing, blocked, removing)
BOOST_DESCRIBE_ENUM(deploy_state, none, done, pending, failed)

struct retiring_user {
    std::string remote_id;
    std::string common_name;
    instant delete_at;

    bool operator==(const retiring_user&) const = default;
};

struct user_status {
    user_name name;
    user_state state = user_state::absent;
    std::string reason;                   // a stable word
    std::string sentence;                 // for people, with the remedy if there is one
    bool attention = false;               // a person should look at it
    std::string directory;                // where its files are; empty: unknown
    const generation* current = nullptr;  // points into the stored user
    const generation* pending = nullptr;
    std::optional<instant> due_at;     // when its certificate is due, paused or not: for alerts
    std::optional<instant> rotate_at;  // none: no certificate, or its rotation is paused
    bool wanted = false;               // in the configuration
    deploy_state deploy = deploy_state::none;
    std::vector<retiring_user> retiring;
    int failures = 0;
    std::string last_error;  // empty: no error
    std::string warning;     // about its settings; empty: none
    std::optional<instant> next_attempt;
};

// All configured users, then stored ones that are no longer configured. Points into `stored`.
std::vector<user_status> statuses(const desired_state&, const stored_state& stored, instant now);

// "2 of 3 users up to date, 1 paused, 1 being removed": of the users in the configuration, and then the
// others.
struct tally {
    std::size_t wanted = 0;
    std::size_t up_to_date = 0;
    std::size_t paused = 0;    // due, but rotation.paused
    std::size_t removing = 0;  // not in the configuration
    std::size_t kept = 0;      // not in the configuration and not being removed

    std::string sentence() const;
};

tally tally_of(const std::vector<user_status>&);

// Users whose certificate in use was created for another owner. The new owner creates them again, and the old
// ones stay on the platform because they carry the other owner's marker.
struct owner_change {
    std::string before;
    std::string after;
    std::size_t users = 0;

    std::string sentence() const;
};
std::optional<owner_change> changed_owner(const desired_state&, const stored_state&);

}  // namespace policy
