#include "policy/consumer.hpp"

namespace policy {

std::optional<std::string> not_served(const unit_facts& before, const unit_facts& after, bool restarted)
{
    if (after.active_state.empty()) return "systemd does not say what became of it";
    if (after.active_state == "failed")
        return "it is in state failed" + (after.result.empty() ? "" : " (" + after.result + ")") +
               ", so nothing uses the new certificate: fix and start it, or run systemctl reset-failed if it "
               "is meant to stay stopped";
    if (after.active_state == "activating" && after.sub_state == "auto-restart")
        return "it ended as soon as it was started, and systemd starts it again and again";
    if (after.active_state == "deactivating") return "it is still stopping";
    const bool ran = before.active_state == "active" || before.active_state == "reloading";
    const bool same = !before.invocation_id.empty() && before.invocation_id == after.invocation_id;
    if (restarted && ran && same && after.active_state != "inactive")
        return "it was not restarted: it still runs as before the switch";
    return std::nullopt;
}

}  // namespace policy
