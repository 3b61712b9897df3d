#pragma once

#include <optional>
#include <string>

// What this process was given by its surroundings.

namespace io {

// The variable's value; none when it is not set. An empty value is a value.
std::optional<std::string> environment(const std::string& name);

// The host's name up to its first dot, "localhost" when it has none.
std::string short_hostname();

}  // namespace io
