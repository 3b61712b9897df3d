#pragma once

#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

// What the disk holds: the private store's records as values. The described members are what is stored; the
// others are facts of the last observation.

namespace policy {

// Where a remote user lives: enough to delete it when its exposure is no longer in the file.
struct place {
    std::string base_url;
    policy::variant variant = policy::variant::log;
    std::string tenant;
    std::string instance_id;  // empty until known

    bool operator==(const place&) const = default;
};
BOOST_DESCRIBE_STRUCT(place, (), (base_url, variant, tenant, instance_id))

// Everything that is sent in the POST of one generation, fixed before the first byte leaves.
struct submission {
    std::string common_name;
    std::string description;  // with marker
    std::string contact;
    std::string consumer_group;
    policy::key_type key = policy::key_type::rsa_3072;
    csr_encoding encoding = csr_encoding::pem;

    bool operator==(const submission&) const = default;
};
BOOST_DESCRIBE_STRUCT(submission, (), (common_name, description, contact, consumer_group, key, encoding))

struct certificate_facts {
    std::string serial;       // hex
    std::string fingerprint;  // SHA-256 of the DER, hex
    instant not_before;
    instant not_after;
    std::optional<instant> expiration_date;  // as the platform says

    // The earlier of notAfter and expirationDate counts (contract section 3).
    instant expiry() const
    {
        return expiration_date && *expiration_date < not_after ? *expiration_date : not_after;
    }

    bool operator==(const certificate_facts&) const = default;
};
BOOST_DESCRIBE_STRUCT(certificate_facts, (), (serial, fingerprint, not_before, not_after, expiration_date))

// What has accepted a certificate: nothing yet, our own checks, the broker.
enum class verification { none, local, broker };
BOOST_DESCRIBE_ENUM(verification, none, local, broker)

// One key with all that became of it. Steps are instants: unset means not yet.
struct generation {
    std::string id;           // 8 hex digits
    std::string fingerprint;  // SHA-256 of the public key, hex
    place where;
    submission sent;
    instant created_at;
    std::optional<instant> submitted_at;  // intent: written before the POST that may have left since
    bool answered = false;                // that POST was answered for certain: with an id, or refused
    std::string remote_id;                // empty until known
    std::optional<instant> accepted_at;   // its id is known since
    std::optional<certificate_facts> certificate;
    std::optional<instant> collected_at;
    verification verified = verification::none;
    std::optional<instant> verified_at;
    std::optional<instant> published_at;
    std::optional<instant> deployed_at;
    std::optional<instant> missing_since;  // the platform does not have its user any more
    std::string quarantine;                // why its certificate is never used; empty: it is fine
    std::vector<std::string>
        not_ours;             // users that carry its marker, or that an answer named, without its key
    bool abandoned = false;   // never became READY in time; a successor was made
    bool imported = false;    // made by hand: its user carries no marker of ours
    bool kept = false;        // imported without --retire: its user is never deleted
    bool key_on_disk = true;  // fact of the look, never stored

    bool operator==(const generation&) const = default;
};
BOOST_DESCRIBE_STRUCT(generation, (),
                      (id, fingerprint, where, sent, created_at, submitted_at, answered, remote_id,
                       accepted_at, certificate, collected_at, verified, verified_at, published_at,
                       deployed_at, missing_since, quarantine, not_ours, abandoned, imported, kept))

// What the published directory held when it was last written: stat facts, so that a look costs no reading.
struct published_file {
    std::string name;
    std::uint64_t inode = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t size = 0;
    unsigned mode = 0;
    unsigned uid = 0;
    unsigned gid = 0;
    std::string
        digest;  // of a file that is never the same twice: which content, for which inputs; else empty

    bool operator==(const published_file&) const = default;
};
BOOST_DESCRIBE_STRUCT(published_file, (), (name, inode, mtime_ns, size, mode, uid, gid, digest))

// What went wrong lately with one user or exposure, and when the next attempt is due.
struct failure_memory {
    int count = 0;
    errc code = errc::internal;
    retry kind = retry::later;
    std::string sentence;
    instant last;
    std::optional<instant> next_attempt;
    std::string wanted;  // fingerprint of the entry that failed: a changed entry acts at once

    bool operator==(const failure_memory&) const = default;
};
BOOST_DESCRIBE_STRUCT(failure_memory, (), (count, code, kind, sentence, last, next_attempt, wanted))

// A decision of the last pass that waits for a person, so that `status` can show it without asking anybody.
struct verdict {
    std::string reason;    // stable word, see reason.hpp
    std::string sentence;  // with the remedy
    instant since;

    bool operator==(const verdict&) const = default;
};
BOOST_DESCRIBE_STRUCT(verdict, (), (reason, sentence, since))

enum class output_condition {
    sound,
    changed,
    damaged,
    missing,
    foreign
};  // changed: the file wants other files

// The last entry of the user in the file: what still holds once the file no longer names it.
struct last_entry {
    duration retire_after = std::chrono::hours(24);
    std::string directory;
    std::vector<hook> hooks;
    bool operator==(const last_entry&) const = default;
};
BOOST_DESCRIBE_STRUCT(last_entry, (), (retire_after, directory, hooks))

struct stored_user {
    user_name name;
    last_entry entry;
    std::vector<generation> generations;  // oldest first
    std::string current;                  // generation that `current` names; empty: none published
    std::string previous;                 // generation kept for the way back
    std::vector<published_file> files;    // of the current generation
    std::string rendered;                 // fingerprint of the output rule that the files were made from
    std::vector<instant>
        creations;  // of generations, within the budget's window; a person's `rotate` clears it
    std::optional<instant> unwanted_since;   // the file does not name it since
    std::optional<instant> rotate_asked_at;  // `rotate` was said and no generation made since
    bool retire_now = false;                 // with --retire-now: the predecessor need not wait
    std::string held;           // generation put back by `rollback`: no pass undoes it before it is due
    std::string deploy_reason;  // EXPOSURE_REASON of the hooks that are pending
    std::optional<failure_memory> failure;         // of a step towards a new certificate
    std::optional<failure_memory> deploy_failure;  // of the hooks
    std::optional<failure_memory> clear_failure;  // of retiring what was replaced: no reason to stop the rest
    std::optional<verdict> blocked;

    // Facts of the look itself, never stored: the published directory and the keys as they are now.
    output_condition output = output_condition::missing;
    std::string output_detail;
    // Why its record cannot be read, with the remedy; empty: it can. Nothing else here is true then (but the
    // name), and nothing may be done: what the platform has of this user is not ours to judge without it.
    std::string unreadable;

    const generation* find(const std::string& id) const;
    generation* find(const std::string& id);
    bool operator==(const stored_user&) const = default;
};
BOOST_DESCRIBE_STRUCT(stored_user, (),
                      (name, entry, generations, current, previous, files, rendered, creations,
                       unwanted_since, rotate_asked_at, retire_now, held, deploy_reason, failure,
                       deploy_failure, clear_failure, blocked))

// True when a generation ended without ever being of use.
bool is_dead(const generation&) noexcept;

// The newest generation that was never in use and still may be; null: none is on its way.
const generation* find_pending(const stored_user&);

struct stored_exposure {
    std::string name;
    place where;                              // with the instance that was seen
    std::optional<instant> onboarding_since;  // intent: written before the POST of an instance
    policy::group_fields group_fields = policy::group_fields::auto_;  // that a POST was accepted with
    std::optional<instant> listed_at;                                 // when its users were last listed
    std::optional<failure_memory> failure;
    std::optional<verdict> blocked;

    std::string unreadable;  // fact of the look, never stored: as in stored_user

    bool operator==(const stored_exposure&) const = default;
};
BOOST_DESCRIBE_STRUCT(stored_exposure, (),
                      (name, where, onboarding_since, group_fields, listed_at, failure, blocked))

// This host leaves (`decommission`): nothing is created or rotated any more, and its users go.
struct decommission {
    instant since;
    bool at_once = false;                // without waiting for retire_after
    std::optional<instant> finished_at;  // nothing is left

    bool operator==(const decommission&) const = default;
};
BOOST_DESCRIBE_STRUCT(decommission, (), (since, at_once, finished_at))

struct stored_state {
    std::string owner;
    std::optional<decommission> leaving;
    bool cloned = false;  // the directory was copied from another machine and `takeover` was not said
    std::map<user_name, stored_user> users;
    std::map<std::string, stored_exposure> exposures;
};

// One line of the history: what happened to a user, when, and by whom.
struct history_event {
    instant at;
    user_name name;
    std::string generation;  // empty: of none
    std::string event;       // a stable word
    std::string detail;
    bool person = false;  // a person asked for it; else the schedule
    std::string by;       // the local account of that person

    bool operator==(const history_event&) const = default;
};
BOOST_DESCRIBE_STRUCT(history_event, (), (at, name, generation, event, detail, person, by))

}  // namespace policy
