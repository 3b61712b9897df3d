#pragma once

#include "policy/facts.hpp"

#include <optional>
#include <string>

// How a rule says what it found. For the rules alone.

namespace policy {

finding act(const facts&, action_kind, reason, std::string sentence, const generation* = nullptr);
finding wait(reason, std::string sentence, std::optional<instant> until);

// Waits for a person.
finding block(reason, std::string sentence);

}  // namespace policy
