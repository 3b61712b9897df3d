#pragma once

#include "policy/desired.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <string>
#include <vector>

// Where a user stands, from the disk alone: what `status`, metrics and alerts show (contract section 4).

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
    std::string sentence;                 // for people, with the remedy where there is one
    bool attention = false;               // somebody should look
    std::string directory;                // of its files; empty: none is known
    const generation* current = nullptr;  // into the stored user
    const generation* pending = nullptr;
    std::optional<instant> rotate_at;
    deploy_state deploy = deploy_state::none;
    std::vector<retiring_user> retiring;
    int failures = 0;
    std::string last_error;  // empty: none
    std::optional<instant> next_attempt;
};

// Every user that the file names, then those that it does not name any more. Points into `stored`.
std::vector<user_status> statuses(const desired_state&, const stored_state& stored, instant now);

// Users whose certificate in use was made for another owner. With the new one they are created again, and the
// old ones stay on the platform, because they carry another owner's marker.
struct owner_change {
    std::string before;
    std::string after;
    std::size_t users = 0;

    std::string sentence() const;
};
std::optional<owner_change> changed_owner(const desired_state&, const stored_state&);

}  // namespace policy
