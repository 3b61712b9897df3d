#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

// What this process gets from its environment.

namespace io {

// The variable's value, which may be empty; nullopt when it is not set.
std::optional<std::string> environment(const std::string& name);

// The host name up to its first dot, or "localhost" when it is empty.
std::string short_hostname();

// A user's name for display, or #UID (as sudo accepts it) if the host does not know the user.
std::string user_name(uid_t);

// The account on whose behalf this process runs: the one that called sudo, else the one that logged in, else
// the process's own. Not a person if the service manager started it and nobody logged in.
struct account {
    std::string name;
    bool person = true;
};
account calling_account();

}  // namespace io
