#pragma once

#include <optional>
#include <string>

// Whether the unit that a hook restarts or reloads can hold the certificate that was replaced. systemctl's
// exit code does not say: `try-restart` returns 0 for a unit that failed, and for one that dies right after
// its start.

namespace policy {

// What `systemctl show` says of a unit, as it is printed; all empty: nothing is known.
struct unit_facts {
    std::string active_state;   // active, reloading, inactive, failed, activating, deactivating
    std::string sub_state;      // e.g. running, auto-restart
    std::string result;         // why it failed, e.g. exit-code
    std::string invocation_id;  // another with every start

    bool operator==(const unit_facts&) const = default;
};

// What is wrong with the unit after its hook, as the end of a sentence; none: it was started after the switch
// (or reloaded, which is its own affair), or is not running and reads the certificate when it is started.
std::optional<std::string> not_served(const unit_facts& before, const unit_facts& after, bool restarted);

}  // namespace policy
