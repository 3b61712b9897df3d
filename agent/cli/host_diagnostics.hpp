#pragma once

#include "config/parse.hpp"

#include <string>
#include <vector>

namespace cli {

// What this host makes of a configuration: warnings about what it names but the host lacks (secrets,
// accounts, units and programs of hooks), and mistakes: outputs that the sandbox of the installed service
// hides or makes read-only. Without an installed service, what its sandbox would hide is a warning. Only
// reads the disk: starts and contacts nothing. Each has the position of its setting in the file.
struct host_diagnostics {
    std::vector<config::diagnostic> mistakes;
    std::vector<config::diagnostic> warnings;
};

host_diagnostics diagnose_host(const config::outcome&, const std::string& file);

}  // namespace cli
