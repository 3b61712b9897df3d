#pragma once

#include "config/load.hpp"
#include "policy/desired.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace service {

// What an edited file means for a daemon that runs. Nothing set: it says what it said before.
struct edit {
    std::shared_ptr<const policy::desired_state> desired;  // to go by from now on
    std::vector<std::string> mistakes;                     // each FILE:LINE:COLUMN: ...; nothing changes
    std::vector<std::string> warnings;
    std::string restart;  // it changes what only a restart can change; nothing changes, and this says why
};

// Compares what the file says now with what is in force.
edit edit_of(const policy::desired_state& in_force, config::outcome read);

}  // namespace service
