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

// Everything known about one user at one instant, joined from configuration, platform and disk.

namespace policy {

// The inputs of one plan, indexed by name, id and key, so that joining a thousand users takes no thousand
// searches. Points into the inputs, which must outlive it.
struct exposure_index {
    const desired_exposure* wanted = nullptr;  // null: the configuration has no such exposure
    std::unordered_map<std::string_view, const desired_user*> users;
    std::unordered_map<std::string_view, const remote_user*> by_id;
    std::unordered_multimap<std::string_view, const remote_user*> by_key;  // by the key in their marker
};

class user_index {
public:
    user_index(const desired_state&, const observed_state&, const stored_state&);

    // An exposure that is not in the configuration has an empty index.
    const exposure_index& of(const std::string& exposure) const;
    // The user's entry in the configuration; null when there is none.
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
    const desired_exposure* exposure = nullptr;  // null: not in the configuration
    const desired_user* want = nullptr;          // null: not in the configuration
    const stored_user* have = nullptr;           // null: nothing is stored
    const observed_exposure* seen = nullptr;     // null: not observed, or the observation failed
    const generation* current = nullptr;         // the published generation
    const generation* pending = nullptr;         // the one under way to replace it
    std::string owner;
    std::string instance_id;         // of the exposure, as recorded
    std::string wanted_fingerprint;  // entry_fingerprint; empty when not in the configuration
    instant now;
    plan_options options;
    const decommission* leaving = nullptr;  // null: not being decommissioned
};

// A rule that applies. Without an action the user waits: until `until`, or for a person when blocked.
struct finding {
    reason why = reason::healthy;
    std::string sentence;
    std::optional<policy::action> act;
    std::optional<instant> until;
    bool blocked = false;
    bool polls = false;   // waits for the platform: poll soon
    bool frozen = false;  // set by a guard: nothing may change, not even on this host

    bool open() const { return why == reason::healthy; }
};

facts join(const user_index&, const user_name&, instant now, plan_options);

user_name name_of(const facts&);

// Our remote users that carry this generation's key, the one to keep first: READY before IN PROGRESS, then
// the older creation date, then the smaller id (failure-modes S6).
std::vector<const remote_user*> users_with_key(const facts&, const generation&);

// This generation's remote user as listed; null when the list does not have it.
const remote_user* listed(const facts&, const generation&);

// True when the user carries this generation's marker, or what is left of it where the platform truncated the
// description, or when it was imported with --retire.
bool carries_marker(const remote_user&, const std::string& owner, const user_name&, const generation&);

// True when a user without a certificate may still get one, which will show whose key it has.
// A user that never gets one is of no use to anyone.
bool may_get_certificate(const remote_user&, const generation&, instant now);

// True when this generation's remote user is ours to delete: it carries our owner's marker (or what the
// platform left of it), was imported with --retire, or is certainly gone. Any other user without a marker
// must not be deleted (contract section 3).
bool is_ours(const facts&, const generation&);

// True when a user created by this generation's POST may not be listed yet: the POST was sent recently, and
// its user has not been seen or may have a duplicate.
bool may_show_up(const facts&, const generation&);

// A generation that was in use, or is of no use any more: every one but current and pending.
bool is_left_over(const facts&, const generation&) noexcept;

// How a rule reports its finding. For the rules only.
finding act(const facts&, action_kind, reason, std::string sentence, const generation* = nullptr);
finding wait(reason, std::string sentence, std::optional<instant> until);

// A finding that waits for a person.
finding block(reason, std::string sentence);

// --- Why a user needs a new certificate

// When a certificate is due (contract section 2).
// Deterministic, not random: the same inputs always give the same instant. The spread is fixed per user: all
// of its certificates have the same share of the widest spread.
struct rotation_time {
    instant at;             // rotate_at = expiry - renew_before - spread
    bool lead_cut = false;  // renew_before was not smaller than the lifetime: a third of it is used instead
};

rotation_time rotate_at(const certificate_facts&, const lead& renew_before, const std::string& owner,
                        const user_name&);

// The warning about a renew_before that is not smaller than the lifetime; nullopt when it is.
std::optional<std::string> lead_warning(const certificate_facts&, const lead& renew_before);
// About the certificate in use.
std::optional<std::string> lead_warning(const facts&);

// A new generation of this key (SHA-256 of its public key, hex), as the configuration currently defines it.
generation describe_generation(const std::string& fingerprint, const desired_exposure&, const desired_user&,
                               const std::string& instance, const std::string& owner, instant now);

// The setting that changed since this generation was created, with both values. The user must be configured.
std::optional<std::pair<reason, std::string>> difference(const facts&, const generation&);

// Why a new certificate is needed, as a sentence; nullopt when the one in use will do.
// The user must be in the configuration.
std::optional<std::pair<reason, std::string>> need(const facts&);

// What is wrong with a generation whose key_on_disk is false.
std::string lost_pair(const generation&);

// True when rotation.paused keeps its certificate in use from being rotated.
bool is_paused(const facts&);

// A user with nothing to do, as a sentence.
std::string stands(const facts&);

// When the certificate in use is due; nullopt without one, or when the user is no longer wanted.
std::optional<instant> due_at(const facts&);

}  // namespace policy
