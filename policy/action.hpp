#pragma once

#include "policy/events.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <string>

// One step for one user (or one exposure), with all it needs: printed by `plan`, performed by `reconcile`.

namespace policy {

enum class action_kind {
    onboard,            // create the tenant's instance
    remember_instance,  // keep the instance's id: from now on its absence is an incident
    forget_instance,    // --accept-loss: the instance is gone, and with it all its users
    issue,              // a new generation: key, CSR, intent, then POST
    submit,             // POST of a stored generation
    adopt,              // the platform has our user: keep its id
    discard,            // a generation that was never sent: drop it
    abandon,  // nothing will come of it (never READY, or the file changed): make another, clear it up later
    disown,   // the answer to its POST named a user that is not ours: forget the id, look for the right one
    mark_missing,           // the platform does not have its user any more: note it
    collect,                // fetch the certificate, check it
    verify,                 // at the broker
    publish,                // stage, sync, one rename
    deploy,                 // hooks
    delete_before_replace,  // strategy replace: delete the user before its successor is made
    retire,                 // delete the user of a superseded generation, then its key
    retire_surplus,         // delete a second remote user of one generation
    mark_unwanted,          // the file does not name the user any more: retire_after begins
    mark_wanted,            // it names it again
    remove,                 // delete every remote user of an unwanted user
    forget,                 // ... and then its published files, keys and record
};
BOOST_DESCRIBE_ENUM(action_kind, onboard, remember_instance, forget_instance, issue, submit, adopt, discard,
                    abandon, disown, mark_missing, collect, verify, publish, deploy, delete_before_replace,
                    retire, retire_surplus, mark_unwanted, mark_wanted, remove, forget)

struct action {
    action_kind kind = action_kind::issue;
    user_name name;  // of exposure-wide actions, user is empty
    reason why = reason::healthy;
    std::string sentence;    // why, for people
    std::string generation;  // the one it is about; empty for issue, onboard
    std::string remote_id;   // adopt, retire_surplus, remember_instance
    bool replaces = false;   // issue: there is a certificate already

    bool operator==(const action&) const = default;
};

// True for what talks to the platform: sends nothing while its exposure is unknown, cloned or in an incident.
bool needs_platform(action_kind) noexcept;

// True for what asks the platform to create or delete something.
bool changes_platform(action_kind) noexcept;

// True for what deletes a user on the platform.
bool deletes(action_kind) noexcept;

// How a failure of it is remembered.
attempt attempt_of(action_kind) noexcept;

// The contract's word (section 4, JSON of `plan`): onboard, create, rotate, adopt, publish, deploy, retire,
// remove; empty for pure bookkeeping.
const char* contract_word(const action&) noexcept;

// --- What a person may ask for beside the plan: the steps of `rollback` and `deploy`.

// Returns to the previous certificate; errc::usage when there is none that can be used.
result<action> roll_back(const stored_user&);
failure no_way_back(const user_name&);

// True when `rollback` can return to the certificate before the one in use.
bool can_roll_back(const stored_user&);

// The hooks that have not returned 0 yet; with `force`, of the certificate in use whatever they returned.
std::optional<action> pending_hooks(const stored_user&, bool force);

}  // namespace policy
