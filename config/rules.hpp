#pragma once

#include "config/layers.hpp"
#include "policy/desired.hpp"

namespace config {

// What sections say against each other: names given twice, users and credentials that would write over each
// other or into the agent's private store, credentials without a catalog service, nothing to do at all.
// `state` was read from `root`, entry by entry in the same order.
void check_rules(const layers& root, const policy::desired_state& state, findings&);

}  // namespace config
