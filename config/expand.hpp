#pragma once

#include "config/environment.hpp"
#include "config/tree.hpp"

namespace config {

// Fills in `${hostname}` and `${env:NAME}` in every scalar below `root`, keys excepted; `$${` stands for a
// literal
// `${`. A variable that is not set and a `${` of another kind are mistakes. A value that was filled in counts
// as plain: quotes around it are YAML's need, not a statement about its type.
void expand(node& root, const environment&, findings&);

}  // namespace config
