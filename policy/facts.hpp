#pragma once

#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/observed.hpp"
#include "policy/plan.hpp"
#include "policy/stored.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// All that is known of one user at one instant, joined from the three worlds, for the checks to look at.

namespace policy {

// The three worlds of one plan, and where in them a name, an id or a key is found: a thousand users are
// joined without a thousand searches. Points into the worlds, which must outlive it.
struct exposure_index {
    const desired_exposure* wanted = nullptr;  // null: the file names no such exposure
    std::unordered_map<std::string_view, const desired_user*> users;
    std::unordered_map<std::string_view, const remote_user*> by_id;
    std::unordered_multimap<std::string_view, const remote_user*> by_key;  // of their marks
};

class user_index {
public:
    user_index(const desired_state&, const observed_state&, const stored_state&);

    // Of an exposure that the file does not name: an empty one.
    const exposure_index& of(const std::string& exposure) const;
    // What the file says of the user; null when it does not name it.
    const desired_user* wanted(const user_name&) const;

    const desired_state& desired;
    const observed_state& observed;
    const stored_state& stored;

private:
    std::unordered_map<std::string_view, exposure_index> exposures_;
};

struct facts {
    const desired_state& wanted;
    const exposure_index& listing;
    const desired_exposure* exposure = nullptr;  // null: the file names no such exposure
    const desired_user* want = nullptr;          // null: the file does not name the user
    const stored_user* have = nullptr;           // null: nothing is stored
    const observed_exposure* seen = nullptr;     // null: not looked at, or the look failed
    const generation* current = nullptr;         // the one that `current` names
    const generation* pending = nullptr;         // the one on its way to be it
    std::string owner;
    std::string instance_id;         // of the exposure, as remembered
    std::string wanted_fingerprint;  // entry_fingerprint, empty when the file does not name the user
    instant now;
    plan_options options;
    const decommission* leaving = nullptr;  // null: this host stays
};

// A rule fired. Without an action the user waits (until `until`, or for a person when blocked).
struct finding {
    reason why = reason::healthy;
    std::string sentence;
    std::optional<policy::action> act;
    std::optional<instant> until;
    bool blocked = false;
    bool polls = false;   // waits for the platform: look again soon
    bool frozen = false;  // of a guard: nothing at all may change, not even on this host

    bool open() const { return why == reason::healthy; }
};

facts join(const user_index&, const user_name&, instant now, plan_options);

user_name name_of(const facts&);

// The remote users of ours that carry this generation's key, the winner first: READY before IN PROGRESS, then
// the older creation date, then the smaller id (failure-modes S6).
std::vector<const remote_user*> users_with_key(const facts&, const generation&);

// The remote user of this generation as the list shows it; null when it does not.
const remote_user* listed(const facts&, const generation&);

// True when the user carries the marker of this generation, or what the platform left of it when it cut the
// description off; or when it is the one that was imported with --retire.
bool carries_marker(const remote_user&, const std::string& owner, const user_name&, const generation&);

// True when a user that has no certificate may still get one, which shows whose it is. One that never had one
// serves nobody.
bool may_get_certificate(const remote_user&, const generation&, instant now);

// True when the remote user of this generation is ours to delete: it carries our owner's mark (or what the
// platform left of it), was imported with --retire, or is certainly gone. Any other user without a mark is
// nobody's to delete (contract section 3).
bool is_ours(const facts&, const generation&);

// True when what a POST of this generation made may not be shown yet: it was sent a short while ago, and its
// user has not been seen, or may have a double.
bool may_show_up(const facts&, const generation&);

// A generation that was in use once, or is of no use any more: everything but current and pending.
bool is_left_over(const facts&, const generation&) noexcept;

// How a rule says what it found. For the rules alone.
finding act(const facts&, action_kind, reason, std::string sentence, const generation* = nullptr);
finding wait(reason, std::string sentence, std::optional<instant> until);

// Waits for a person.
finding block(reason, std::string sentence);

// --- Why a user needs a new certificate.

// When a certificate is due (contract section 2). Derived, never drawn: the same inputs give the same
// instant.
struct rotation_time {
    instant at;             // rotate_at = expiry - renew_before - spread
    bool lead_cut = false;  // renew_before was not smaller than the lifetime: a third of it counts instead
};

rotation_time rotate_at(const certificate_facts&, const lead& renew_before, const std::string& owner,
                        const user_name&);

// A new generation of this key (SHA-256 of its public key, hex), as the file wants it now.
generation describe_generation(const std::string& fingerprint, const desired_exposure&, const desired_user&,
                               const std::string& instance, const std::string& owner, instant now);

// What the configuration changed since this generation was made, from what to what. It names the user.
std::optional<std::pair<reason, std::string>> difference(const facts&, const generation&);

// Why the certificate in use (or none) is not enough, with the sentence; nullopt: it is. The file names the
// user.
std::optional<std::pair<reason, std::string>> need(const facts&);

// When the certificate in use is due; nullopt without one, or when nobody wants it.
std::optional<instant> due_at(const facts&);

}  // namespace policy
