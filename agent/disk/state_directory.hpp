#pragma once

#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

namespace disk {

// Makes the state directory (0711) and `private` in it (0700 from the moment it exists), and puts loosened
// modes right again. The state directory may be a link, as systemd makes one under DynamicUser=.
// errc::foreign_file: `private` is a link or no directory, or either belongs to another user than ours (the
// state directory may be root's); the sentence names the user to run as.
[[nodiscard]] policy::result<void> prepare_state_directory(const paths&);

}  // namespace disk
