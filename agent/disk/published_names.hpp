#pragma once

#include "policy/stored.hpp"

#include <optional>
#include <string>

// Internal to this room: what publishing and inspecting agree on.

namespace disk {

inline constexpr const char* current_name = "current";

// Stands for the directory of the generation itself among the facts of its files. Of it only inode, mode and
// owner count: its times and size change with files that others put there.
inline constexpr const char* generation_itself = ".";

// The stat facts of one file of a generation; none: it is not there. `published` is the open directory above.
std::optional<policy::published_file> look_at_published(int published, const std::string& generation,
                                                        const std::string& name);

}  // namespace disk
