#pragma once

#include "policy/desired.hpp"
#include "policy/facts.hpp"
#include "policy/naming.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <string>
#include <utility>

// Why a user needs a new certificate.

namespace policy {

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
