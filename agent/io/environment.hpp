#pragma once

#include <optional>
#include <string>

// What this process was given by its surroundings.

namespace io {

// The variable's value; none when it is not set. An empty value is a value.
std::optional<std::string> environment(const std::string& name);

// The host's name up to its first dot, "localhost" when it has none.
std::string short_hostname();

// On whose behalf this process runs: the account that called sudo, else the one that logged in, else the
// process's own. Not a person: the service manager started it, and nobody logged in.
struct account {
    std::string name;
    bool person = true;
};
account calling_account();

}  // namespace io
