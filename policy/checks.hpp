#pragma once

#include "policy/facts.hpp"

#include <vector>

// The rules of a user's life, in order: the first that finds something decides the user's next step.
// A new rule is one function in checks.cpp, one line in its table, one row in its test.

namespace policy {

// The next step of the user, or why there is none.
finding next_step(const facts&);

// What may be cleared up beside it: superseded, unused and surplus remote users. Steps and waits.
std::vector<finding> clearing_up(const facts&);

// When a generation that is left over may be deleted on the platform: retire_after counts from its own
// successor on, however often that was replaced since. Needs a user that the file names, whose
// current certificate is in use.
instant retires_at(const facts&, const generation&);

}  // namespace policy
