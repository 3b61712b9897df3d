#pragma once

#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <boost/describe/enum.hpp>

#include <string>
#include <variant>
#include <vector>

// Stable words: the same in logs, JSON, metrics, tests and the output of `explain`.

namespace policy {

enum class reason {
    // nothing to do
    healthy,           // valid, in use, not due
    waiting_settle,    // a POST got no answer; its user is searched for in the list
    waiting_ready,     // the platform is still issuing
    waiting_instance,  // the instance is still being created
    backing_off,       // the last attempt failed, the next one is scheduled
    // a new generation
    absent,               // no generation yet
    rotation_due,         // rotate_at has passed
    expired,              // the certificate in use has expired
    rotation_asked,       // requested by a person
    key_type_changed,     // the configuration wants another key type
    group_changed,        // ... another consumer group
    contact_changed,      // ... another contact
    description_changed,  // ... another description
    name_changed,         // ... another common name, tenant or address
    lost_remote,          // its user was deleted on the platform by someone else
    key_lost,             // the private key is missing from the private store
    // a generation under way
    not_submitted,    // key and CSR are stored, nothing was sent
    unanswered,       // sent, no answer, and not in the list after the settle time
    found_by_marker,  // the platform has a user with our marker and key
    misnamed,         // the answer to its POST named a user that is not ours
    outdated,         // the configuration changed before it was used
    never_ready,      // IN PROGRESS for too long
    issue_failed,     // the platform says FAILED or ERROR
    ready,            // READY, certificate not fetched
    not_verified,     // the broker has not accepted it yet
    not_published,    // fetched (and verified), not in use
    hooks_pending,    // published, hooks have not all returned 0
    // the published directory
    output_changed,  // the configuration wants other files, owners or modes
    output_damaged,
    output_missing,
    // cleanup
    superseded,        // its successor has been in use for retire_after
    surplus,           // a second remote user for the same key
    rolled_back,       // returned to the previous certificate by a person
    strategy_replace,  // the old user is deleted first
    not_in_file,       // no longer in the configuration
    named_again,       // back in the configuration before it was removed
    // incidents and guards: a person must decide
    quarantined,        // the certificate failed our checks
    instance_missing,   // there is none, and create_instance is false
    instance_vanished,  // the known instance has disappeared
    instance_failed,    // the platform says FAILED or ERROR
    owner_changed,      // owner was edited: every user would be created again
    instance_several,   // more than one, where the reference allows one
    users_vanished,     // more than half of the users disappeared at once
    unreachable,        // the platform cannot be reached
    budget_spent,       // max_creates_per_user
    deletes_exceeded,   // max_deletes
    paused,
    cloned,             // the state directory was copied from another machine
    clock_wrong,        // our clock and the platform's disagree
    record_unreadable,  // the user's record in the private store is unreadable
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

// --- What happened to a user or an exposure. The executor and the operators' commands report these events;
// `apply` is the only code that changes a record, and the history is made of the same events.

// Which kind of attempt failed: each has its own retry schedule.
enum class attempt { step, hooks, clearing };
BOOST_DESCRIBE_ENUM(attempt, step, hooks, clearing)

namespace event {

// ---- a generation under way
struct created {
    generation made;
    reason why = reason::absent;
};
struct submitting {  // a POST is about to be sent: from now on its user may exist
    std::string generation;
    std::string instance_id;
};
struct not_sent {  // no byte of it was sent: the previous record applies again
    std::string generation;
    std::optional<instant> submitted_at;
    bool answered = false;
};
struct unanswered {
    std::string generation;
};
struct refused {  // the answer proves that nothing was created
    std::string generation;
    std::string why;
};
struct accepted {
    std::string generation;
    std::string remote_id;
};
struct adopted {  // found on the platform by marker and key
    std::string generation;
    std::string remote_id;
};
struct misnamed {  // the user with that id is not ours: search for the right one again
    std::string generation;
    std::string remote_id;
};
struct not_ours {  // carries our marker but another key: never used, never deleted
    std::string generation;
    std::string remote_id;
};
struct issued {
    std::string generation;
    certificate_facts certificate;
};
struct quarantined {
    std::string generation;
    std::string why;
};
struct expiration_seen {  // the platform reports another expiration date than before
    std::string generation;
    instant expiration_date;
};
struct verified {
    std::string generation;
    verification by = verification::broker;
};
struct published {  // now in use; or, if already in use, its files were restored
    std::string generation;
    std::vector<published_file> files;
    std::string rendered;
    bool hooks = false;  // there are hooks to run
    std::string why;
};
struct moved {  // the old output directory holds no files of ours any more
    std::string directory;
};
struct deployed {
    std::string generation;
    bool hooks = true;
};

// ---- a generation that ends
struct abandoned {
    std::string generation;
    std::string why;
};
struct discarded {  // never sent
    std::string generation;
};
struct missing {  // its user is gone from the platform
    std::string generation;
    std::string why;
};
struct released {  // deleted to make room for its successor (strategy replace)
    std::string generation;
};
struct surplus_deleted {
    std::string generation;
    std::string remote_id;
};
struct retired {
    std::string generation;
};
struct removed {  // deleted because the user is no longer wanted
    std::string generation;
};

// ---- the user
struct unwanted {};
struct wanted_again {};
struct entry_changed {  // settings that still apply once the configuration does not name the user
    duration retire_after;
    std::vector<hook> hooks;
};
struct failed {
    attempt of = attempt::step;
    failure what;
    std::string wanted;                   // fingerprint of the entry; empty when there is none
    std::optional<instant> next_attempt;  // sooner than the back-off: a person waits
};
struct recovered {  // failures that are over
    bool step = false;
    bool hooks = false;
    bool clearing = false;
};
struct blocked {
    std::string reason;
    std::string sentence;
};
struct unblocked {};

// ---- requests by a person
struct rotation_requested {
    bool retire_now = false;
};
struct rolled_back {
    std::string to;
};
struct hooks_requested {};
struct retry_requested {};
struct imported {  // created by hand, managed from now on; replaces a generation that is under way
    generation made;
};

}  // namespace event

using user_event =
    std::variant<event::created, event::submitting, event::not_sent, event::unanswered, event::refused,
                 event::accepted, event::adopted, event::misnamed, event::not_ours, event::issued,
                 event::quarantined, event::expiration_seen, event::verified, event::published, event::moved,
                 event::deployed, event::abandoned, event::discarded, event::missing, event::released,
                 event::surplus_deleted, event::retired, event::removed, event::unwanted, event::wanted_again,
                 event::entry_changed, event::failed, event::recovered, event::blocked, event::unblocked,
                 event::rotation_requested, event::rolled_back, event::hooks_requested,
                 event::retry_requested, event::imported>;

// The record after the event. An event about a generation that is not in the record changes nothing.
stored_user apply(stored_user, const user_event&, instant now);

// True when an event counts only once it is stored: an intent, or a failure that is over. All others have
// already happened and are kept in memory even if the disk rejects them.
bool must_be_stored(const user_event&) noexcept;

// ---- exposures

namespace event {

struct onboarding {};  // a POST that creates an instance is about to be sent
struct onboarding_not_sent {};
struct instance_found {
    std::string id;
};
struct instance_forgotten {};
struct group_fields_accepted {  // a POST with these field names was accepted
    group_fields fields;
};
struct users_listed {
    instant at;
};
struct exposure_failed {
    failure what;
    std::string of;  // what failed: the observation, or the address
};
struct retry_exposure {};
struct exposure_recovered {};

}  // namespace event

using exposure_event = std::variant<event::onboarding, event::onboarding_not_sent, event::instance_found,
                                    event::instance_forgotten, event::group_fields_accepted,
                                    event::users_listed, event::exposure_failed, event::retry_exposure,
                                    event::exposure_recovered, event::blocked, event::unblocked>;

stored_exposure apply(stored_exposure, const exposure_event&, instant now);
bool must_be_stored(const exposure_event&) noexcept;

// ---- history (contract section 10)

enum class actor { schedule, person };
BOOST_DESCRIBE_ENUM(actor, schedule, person)

// Who caused an event: the schedule, or a person with a local account.
struct origin {
    policy::actor actor = policy::actor::schedule;
    std::string by;  // empty: unknown

    bool operator==(const origin&) const = default;
};
inline const origin by_schedule;

// The history line of an event, seen against the record before it; nullopt for bookkeeping and for a failure
// that merely repeats.
std::optional<history_event> describe(const stored_user& before, const user_event&, instant now, origin = {});

}  // namespace policy
