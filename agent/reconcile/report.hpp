#pragma once

#include "policy/plan.hpp"
#include "policy/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// What a reconciliation came to, for people, exit codes and metrics.

namespace reconcile {

struct user_report {
    policy::user_name name;
    bool converged = false;
    std::string sentence;   // of what it waits for, or what failed
    bool removing = false;  // the file does not name it any more

    bool operator==(const user_report&) const = default;
};

struct report {
    std::vector<user_report> users;
    std::map<std::string, policy::failure> exposures;    // that could not be looked at
    std::map<std::string, std::string> incidents;        // exposures that wait for a person
    std::map<std::string, policy::failure> credentials;  // that failed
    std::size_t reached = 0;                             // exposures and credentials that were answered

    bool converged() const;
};

// The contract's exit code: 69 says that nothing was reached, 1 that others were served.
int exit_code(const report&) noexcept;

}  // namespace reconcile
