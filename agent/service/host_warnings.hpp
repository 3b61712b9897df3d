#pragma once

#include "config/parse.hpp"

#include <string>
#include <vector>

namespace service {

// Warnings about what the configuration names but this host lacks: secrets, accounts, units and programs of
// hooks; and about outputs that the service's sandbox hides or makes read-only. Only reads the disk: starts
// and contacts nothing. Each warning has the position of its setting in the file.
std::vector<config::diagnostic> host_warnings(const config::outcome&, const std::string& file);

}  // namespace service
