#pragma once

#include "config/keys.hpp"

namespace config {

// Holds a mapping against the table of its keys: unknown and missing keys, wrong types, values that are not
// what their format wants. What was reported is marked `faulty`, so that nobody uses it or reports what
// follows from it.
void check(node&, const section&, findings&);

}  // namespace config
