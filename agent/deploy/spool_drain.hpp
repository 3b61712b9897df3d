#pragma once

#include "agent/deploy/hooks.hpp"
#include "agent/deploy/spool_reader.hpp"
#include "policy/desired.hpp"

#include <string>
#include <vector>

// What `exposure-agent deploy` does as root: names from the spool, actions from the configuration.

namespace deploy {

struct drain_report {
    std::vector<policy::user_name> done;  // every hook returned 0
    std::vector<std::string> failed;      // a sentence each
    std::vector<std::string> thrown_away;

    bool operator==(const drain_report&) const = default;
};

// Takes every entry out of the spool, one by one, runs the hooks that the configuration names for it, and
// leaves an answer. A name that the configuration does not know gets none: whoever writes to the spool shall
// not fill `results`. Failure: errc::disk, the spool cannot be listed; errc::stopping.
io::task<drain_report> drain_spool(const spool_reader&, const policy::desired_state&, hooks&);

// The hooks and the directory of a user, or of a credential (an empty exposure); none: not in the
// configuration.
std::optional<hook_run> find_hooks(const policy::desired_state&, const policy::user_name&);

}  // namespace deploy
