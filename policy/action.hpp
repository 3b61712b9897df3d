#pragma once

#include "policy/events.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

// One step for one user or one exposure, self-contained: `plan` prints it, `reconcile` performs it.

namespace policy {

enum class action_kind {
    onboard,            // create the tenant's instance
    remember_instance,  // store the instance's id: from now on its absence is an incident
    forget_instance,    // --accept-loss: the instance and all its users are gone
    issue,              // a new generation: key, CSR, intent, then POST
    submit,             // POST of a stored generation
    adopt,              // store the id of our user on the platform
    discard,            // drop a generation that was never sent
    abandon,       // give up on it (never READY, or configuration changed); replace it now, clean up later
    disown,        // the answer to its POST named a user that is not ours: forget that id, find the right one
    mark_missing,  // record that its user is gone from the platform
    collect,       // fetch and check the certificate
    verify,        // ask the broker to accept it
    publish,       // stage, sync, one rename
    deploy,        // hooks
    delete_before_replace,  // strategy replace: delete the user before creating its successor
    retire,                 // delete the user of a superseded generation, then its key
    retire_surplus,         // delete a second remote user of one generation
    mark_unwanted,          // removed from the configuration: retire_after starts
    mark_wanted,            // back in the configuration
    remove,                 // delete every remote user of a user that is no longer wanted
    forget,                 // then delete its published files, keys and record
};
BOOST_DESCRIBE_ENUM(action_kind, onboard, remember_instance, forget_instance, issue, submit, adopt, discard,
                    abandon, disown, mark_missing, collect, verify, publish, deploy, delete_before_replace,
                    retire, retire_surplus, mark_unwanted, mark_wanted, remove, forget)

struct action {
    action_kind kind = action_kind::issue;
    user_name name;  // user is empty for exposure-wide actions
    reason why = reason::healthy;
    std::string sentence;    // why, for people
    std::string generation;  // the generation concerned; empty for issue, onboard
    std::string remote_id;   // adopt, retire_surplus, remember_instance
    bool replaces = false;   // issue: a certificate already exists

    bool operator==(const action&) const = default;
};

// True when the action talks to the platform: held back while the exposure is unknown, cloned or in incident.
bool needs_platform(action_kind) noexcept;

// True when the action creates or deletes something on the platform.
bool changes_platform(action_kind) noexcept;

// True when the action deletes a user on the platform.
bool deletes(action_kind) noexcept;

// Which kind of failure a failed action is recorded as.
attempt attempt_of(action_kind) noexcept;

// The contract's word (section 4, JSON of `plan`): onboard, create, rotate, adopt, publish, deploy, retire,
// remove; empty for pure bookkeeping.
const char* contract_word(const action&) noexcept;

// --- Actions a person requests outside the plan: `rollback` and `deploy`.

// Returns to the previous certificate; errc::refused when there is no usable one.
result<action> roll_back(const stored_user&);
failure no_way_back(const user_name&);

// The retirements of replaced generations whose users, by these ids, a person has deleted on the platform.
// The next pass does the same when the successor is not in use yet.
std::vector<action> without(const stored_user&, const std::set<std::string>& ids);

// True when `rollback` has a usable previous certificate.
bool can_roll_back(const stored_user&);

// The hooks that have not returned 0 yet; with `force`, all hooks of the certificate in use.
std::optional<action> pending_hooks(const stored_user&, bool force);

}  // namespace policy
