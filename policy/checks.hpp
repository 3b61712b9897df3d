#pragma once

#include "policy/facts.hpp"

#include <optional>
#include <vector>

// The rules of a user's life, in order: the first that finds something decides the user's next step.
// A new rule is one function in checks.cpp, one line in its table, one row in its test.

namespace policy {

// The next step of the user, or why there is none.
finding next_step(const facts&);

// What may be cleared up beside it: superseded, unused and surplus remote users. Steps and waits.
std::vector<finding> clearing_up(const facts&);

// When the certificate in use is due; nullopt without one, or when nobody wants it.
std::optional<instant> due_at(const facts&);

}  // namespace policy
