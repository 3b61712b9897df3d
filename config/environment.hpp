#pragma once

#include <functional>
#include <optional>
#include <string>

// What the reader takes from the machine. A value, so that tests need no machine.

namespace config {

struct environment {
    std::string hostname;  // short: up to the first dot
    std::function<std::optional<std::string>(const std::string& name)> variable;
};

// The short host name and getenv of this process.
environment this_process();

}  // namespace config
