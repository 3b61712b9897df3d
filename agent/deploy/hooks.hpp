#pragma once

#include "agent/io/awaitable.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"

#include <string>
#include <vector>

// Port: the hooks of one user, in order, after a new certificate is in place (contract section 6).

namespace deploy {

struct hook_run {
    policy::user_name name;
    std::vector<policy::hook> hooks;
    std::string directory;
    std::string generation;
    policy::instant not_after;
    std::string topic = {};  // of users: what they may read, and as whom
    std::string consumer_group = {};
    std::string reason = {};  // EXPOSURE_REASON: stable word of why there is a new certificate
};

// "logs/siem", or "credential backup": leads the sentences about hooks.
inline std::string subject_of(const policy::user_name& name)
{
    return name.exposure.empty() ? "credential " + name.user : name.text();
}

class hooks {
public:
    virtual ~hooks() = default;

    // All hooks returned 0, one after the other; the first that does not ends the run with errc::hook_failed,
    // its sentence showing which one, how it ended and the last of its output.
    virtual io::task<void> run(hook_run) = 0;
};

}  // namespace deploy
