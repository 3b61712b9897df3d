#pragma once

#include "policy/facts.hpp"

#include <optional>
#include <string>
#include <utility>

// Why a user needs a new certificate.

namespace policy {

// What the file wants otherwise than this generation was made. The file names the user.
std::optional<reason> difference(const facts&, const generation&);

// Why the certificate in use (or none) is not enough, with the sentence; nullopt: it is. The file names the
// user.
std::optional<std::pair<reason, std::string>> need(const facts&);

// When the certificate in use is due; nullopt without one, or when nobody wants it.
std::optional<instant> due_at(const facts&);

}  // namespace policy
