#pragma once

#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// The records of the private store as values. Only described members are stored;
// the others are facts from the last observation.

namespace policy {

// Where a remote user lives: enough to delete it after its exposure was removed from the configuration.
struct place {
    std::string base_url;
    policy::variant variant = policy::variant::log;
    std::string tenant;
    std::string instance_id;  // empty until known

    bool operator==(const place&) const = default;
};
BOOST_DESCRIBE_STRUCT(place, (), (base_url, variant, tenant, instance_id))

// The content of a generation's POST, fixed before the first byte is sent.
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
    std::optional<instant> expiration_date;  // as reported by the platform

    // The earlier of notAfter and expirationDate (contract section 3).
    instant expiry() const
    {
        return expiration_date && *expiration_date < not_after ? *expiration_date : not_after;
    }

    bool operator==(const certificate_facts&) const = default;
};
BOOST_DESCRIBE_STRUCT(certificate_facts, (), (serial, fingerprint, not_before, not_after, expiration_date))

// Who has accepted a certificate: nobody yet, our own checks, the broker.
enum class verification { none, local, broker };
BOOST_DESCRIBE_ENUM(verification, none, local, broker)

// One key and everything that became of it. Steps are instants: unset means not yet.
struct generation {
    std::string id;           // 8 hex digits
    std::string fingerprint;  // SHA-256 of the public key, hex
    place where;
    submission sent;
    instant created_at;
    std::optional<instant> submitted_at;  // intent: recorded before a POST, which may have been sent since
    bool answered = false;                // the outcome of that POST is certain: an id, or a refusal
    std::string remote_id;                // empty until known
    std::optional<instant> accepted_at;   // when its id became known
    std::optional<certificate_facts> certificate;
    std::optional<instant> collected_at;
    verification verified = verification::none;
    std::optional<instant> verified_at;
    std::optional<instant> published_at;
    std::optional<instant> deployed_at;
    std::optional<instant> missing_since;  // its user is gone from the platform
    std::string quarantine;                // why its certificate must never be used; empty: usable
    std::vector<std::string>
        not_ours;             // users without its key that carry its marker or were named in an answer
    bool abandoned = false;   // never became READY in time, or is not wanted; never used
    bool imported = false;    // created by hand: its user carries no marker of ours
    bool kept = false;        // imported without --retire: its user is never deleted
    bool key_on_disk = true;  // observed, never stored

    bool operator==(const generation&) const = default;
};
BOOST_DESCRIBE_STRUCT(generation, (),
                      (id, fingerprint, where, sent, created_at, submitted_at, answered, remote_id,
                       accepted_at, certificate, collected_at, verified, verified_at, published_at,
                       deployed_at, missing_since, quarantine, not_ours, abandoned, imported, kept))

// A published file as it was last written. Stat facts, so that a check need not read the file.
struct published_file {
    std::string name;
    std::uint64_t inode = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t size = 0;
    unsigned mode = 0;
    unsigned uid = 0;
    unsigned gid = 0;
    std::string
        digest;  // for a file that is never written the same twice: of its content and inputs; else empty

    bool operator==(const published_file&) const = default;
};
BOOST_DESCRIBE_STRUCT(published_file, (), (name, inode, mtime_ns, size, mode, uid, gid, digest))

// The recent failures of one user or exposure, and when the next attempt is due.
struct failure_memory {
    int count = 0;
    errc code = errc::internal;
    retry kind = retry::later;
    std::string sentence;
    instant last;
    std::optional<instant> next_attempt;
    std::string wanted;  // fingerprint of the failed entry: an edited one is tried at once

    bool operator==(const failure_memory&) const = default;
};
BOOST_DESCRIBE_STRUCT(failure_memory, (), (count, code, kind, sentence, last, next_attempt, wanted))

// A decision of the last pass that waits for a person, stored so that `status` can show it offline.
struct verdict {
    std::string reason;    // stable word, see policy::reason
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
};  // changed: the configuration wants other files

// The user's last entry in the configuration: the settings that still apply after it was removed.
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
    std::string current;                  // the published generation (the `current` link); empty: none
    std::string previous;                 // the generation that `rollback` returns to
    std::vector<published_file> files;    // files of the current generation
    std::string rendered;                 // fingerprint of the output rule that produced the files
    std::vector<instant>
        creations;  // times of new generations within the budget's window; cleared by `rotate`
    std::optional<instant> unwanted_since;         // when it was removed from the configuration
    std::optional<instant> rotate_asked_at;        // when `rotate` was requested; reset by a new generation
    bool retire_now = false;                       // --retire-now: delete the predecessor without waiting
    std::string held;                              // generation restored by `rollback`: kept until it is due
    std::string deploy_reason;                     // EXPOSURE_REASON of the pending hooks
    std::optional<failure_memory> failure;         // of a step towards a new certificate
    std::optional<failure_memory> deploy_failure;  // of the hooks
    std::optional<failure_memory> clear_failure;   // of deleting replaced users: does not stop other steps
    std::optional<verdict> blocked;

    // Observed, never stored: the published directory and the keys as they are now.
    output_condition output = output_condition::missing;
    std::string output_detail;
    // Why its record is unreadable, with the remedy; empty: readable. If set, only the name is valid and
    // nothing may be done: without the record we cannot tell what the platform has of this user.
    std::string unreadable;

    const generation* find(const std::string& id) const;
    generation* find(const std::string& id);
    bool operator==(const stored_user&) const = default;
};
BOOST_DESCRIBE_STRUCT(stored_user, (),
                      (name, entry, generations, current, previous, files, rendered, creations,
                       unwanted_since, rotate_asked_at, retire_now, held, deploy_reason, failure,
                       deploy_failure, clear_failure, blocked))

// True when a generation ended without ever being used.
bool is_dead(const generation&) noexcept;

// The newest generation that was never in use but still may be; null when none is under way.
const generation* find_pending(const stored_user&);

struct stored_exposure {
    std::string name;
    place where;                              // with the id of the observed instance
    std::optional<instant> onboarding_since;  // intent: recorded before the POST of an instance
    policy::group_fields group_fields = policy::group_fields::auto_;  // field names of the last accepted POST
    std::optional<instant> listed_at;                                 // when its users were last listed
    std::optional<failure_memory> failure;
    std::optional<verdict> blocked;

    std::string unreadable;  // observed, never stored: as in stored_user

    bool operator==(const stored_exposure&) const = default;
};
BOOST_DESCRIBE_STRUCT(stored_exposure, (),
                      (name, where, onboarding_since, group_fields, listed_at, failure, blocked))

// This host is being decommissioned: nothing is created or rotated any more, and its users are deleted.
struct decommission {
    instant since;
    bool at_once = false;                // without waiting for retire_after
    std::optional<instant> finished_at;  // when nothing was left to do

    bool operator==(const decommission&) const = default;
};
BOOST_DESCRIBE_STRUCT(decommission, (), (since, at_once, finished_at))

struct stored_state {
    std::string owner;
    std::optional<decommission> leaving;
    bool cloned = false;  // the directory was copied from another machine and `takeover` has not been run
    std::map<user_name, stored_user> users;
    std::map<std::string, stored_exposure> exposures;
    std::set<user_name> damaged;  // whose records could not be read: treated as new users
};

// A line of the history: what happened to a user, when, and who caused it.
struct history_event {
    instant at;
    user_name name;
    std::string generation;  // empty: none
    std::string event;       // a stable word
    std::string detail;
    bool person = false;  // requested by a person; else scheduled
    std::string by;       // that person's local account

    bool operator==(const history_event&) const = default;
};
BOOST_DESCRIBE_STRUCT(history_event, (), (at, name, generation, event, detail, person, by))

}  // namespace policy
