#pragma once

#include "policy/words.hpp"

#include <boost/describe/enum.hpp>

// Stable words: the same in logs, JSON, metrics, tests and the sentences of `explain`.

namespace policy {

enum class reason {
    // nothing to do
    healthy,           // valid, in use, not due
    waiting_settle,    // a POST without an answer is looked for in the list
    waiting_ready,     // the platform is still issuing
    waiting_instance,  // the instance is still being made
    backing_off,       // the last attempt failed, the next one is due later
    // a new generation
    absent,               // no generation yet
    rotation_due,         // rotate_at has passed
    expired,              // the certificate in use has expired
    rotation_asked,       // a person asked for it
    key_type_changed,     // the file wants another key type
    group_changed,        // ... another consumer group
    contact_changed,      // ... another contact
    description_changed,  // ... another description
    name_changed,         // ... another common name, tenant or address
    lost_remote,          // its user was deleted on the platform by somebody else
    key_lost,             // the private key is gone from the private store
    // a generation under way
    not_submitted,    // key and CSR are stored, nothing was sent
    unanswered,       // sent, no answer, and the list does not know it after the settle time
    found_by_marker,  // the platform has a user with our marker and key
    misnamed,         // the answer to its POST named a user that is not ours
    outdated,         // the file changed before it was in use
    never_ready,      // IN PROGRESS for too long
    issue_failed,     // the platform says FAILED or ERROR
    ready,            // READY, certificate not fetched
    not_verified,     // the broker has not accepted it yet
    not_published,    // fetched (and verified), not in use
    hooks_pending,    // published, hooks have not all returned 0
    // the published directory
    output_changed,  // the file wants other files, owners or modes
    output_damaged,
    output_missing,
    // clearing up
    superseded,        // its successor is in use for retire_after
    surplus,           // a second remote user for the same key
    rolled_back,       // a person returned to the previous certificate
    strategy_replace,  // the old user makes room first
    not_in_file,       // the file does not name it any more
    named_again,       // the file names it again before it was removed
    // incidents and guards: a person decides
    quarantined,        // the certificate does not fit
    instance_missing,   // none there, and create_instance is false
    instance_vanished,  // the known instance is gone
    instance_failed,    // the platform says FAILED or ERROR
    owner_changed,      // owner was edited: every user would be created again
    instance_several,   // more than one where the reference allows one
    users_vanished,     // more than half of the users are gone at once
    unreachable,        // the platform cannot be asked
    budget_spent,       // max_creates_per_user
    deletes_exceeded,   // max_deletes
    paused,
    cloned,             // the state directory comes from another machine
    clock_wrong,        // our clock and the platform's differ
    record_unreadable,  // the user's record in the private store cannot be read
};
BOOST_DESCRIBE_ENUM(reason, healthy, waiting_settle, waiting_ready, waiting_instance, backing_off, absent,
                    rotation_due, expired, rotation_asked, key_type_changed, group_changed, contact_changed,
                    description_changed, name_changed, lost_remote, key_lost, not_submitted, unanswered,
                    found_by_marker, misnamed, outdated, never_ready, issue_failed, ready, not_verified,
                    not_published, hooks_pending, output_changed, output_damaged, output_missing, superseded,
                    surplus, rolled_back, strategy_replace, not_in_file, named_again, quarantined,
                    instance_missing, instance_vanished, instance_failed, owner_changed, instance_several,
                    users_vanished, unreachable, budget_spent, deletes_exceeded, paused, cloned, clock_wrong,
                    record_unreadable)

}  // namespace policy
