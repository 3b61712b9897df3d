#pragma once

#include "agent/disk/directory.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <string>

namespace disk {

// The configured owner, group and mode as the system's numbers; a name may be a number. Unset stays unset.
// errc::config: this host has no such user or group.
[[nodiscard]] policy::result<access> access_for(const policy::file_access&);

// A user's name for people; #UID, as sudo takes it, when the system knows none.
std::string user_text(uid_t);

}  // namespace disk
