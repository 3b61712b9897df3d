#pragma once

#include "policy/plan.hpp"

#include <string>
#include <utility>
#include <vector>

// A decision as a proof: the facts, the rule that fired, what comes next, what would change it.

namespace policy {

struct explanation {
    user_name name;
    std::vector<std::pair<std::string, std::string>> facts;  // name and value, in the order to read them
    reason finding = reason::healthy;
    std::string sentence;
    bool blocked = false;
    std::string next;
    std::optional<instant> next_at;
    std::vector<std::string> would_change;
};

explanation explain(const desired_state&, const observed_state&, const stored_state&, const plan_result&,
                    const user_name&, instant now);

}  // namespace policy
