#include "agent/service/reload.hpp"

namespace service {
namespace {

// The name of what cannot be changed while the daemon runs; empty: all of it can.
std::string bound_to_start(const policy::desired_state& before, const policy::desired_state& after)
{
    if (before.state_dir != after.state_dir)
        return "state_dir (" + before.state_dir + ", now " + after.state_dir + ")";
    if (before.owner != after.owner) return "owner";
    const bool external = before.identity.access_token || after.identity.access_token;
    if (external && before.identity != after.identity) return "identity.access_token";
    return "";
}

}  // namespace

edit edit_of(const policy::desired_state& in_force, config::outcome read)
{
    edit result;
    for (const auto& mistake : read.mistakes)
        result.mistakes.push_back(config::to_string(mistake));
    for (const auto& warning : read.warnings)
        result.warnings.push_back(config::to_string(warning));
    if (!read.state || *read.state == in_force) return result;
    if (const auto what = bound_to_start(in_force, *read.state); !what.empty())
        result.restart =
            what + " changed, which needs a restart; until then the configuration before stays in force";
    else
        result.desired = std::make_shared<const policy::desired_state>(std::move(*read.state));
    return result;
}

}  // namespace service
