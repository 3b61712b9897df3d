#pragma once

#include "agent/reconcile/report.hpp"
#include "agent/reconcile/world.hpp"
#include "policy/plan.hpp"

#include <map>
#include <string>
#include <vector>

// `plan`: what `reconcile` would do and why, changing nothing anywhere.

namespace reconcile {

struct preview {
    std::vector<policy::decision> changes;  // one a user and step, exposures first
    std::vector<policy::decision> blocked;  // would be done, but waits for a person
    std::vector<policy::decision> later;    // decided already, and waiting for its time
    std::vector<policy::unmanaged_user> unmanaged;
    std::map<std::string, policy::failure> unreached;
    report reach;  // for the exit code: only what could not be looked at
    policy::plan_result plan;
};

// Looks at every exposure and plans: with ignore_backoff, as a person's `reconcile` would.
io::awaitable<preview> look_ahead(world&, policy::plan_options);

}  // namespace reconcile
