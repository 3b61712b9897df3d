#pragma once

#include "config/parse.hpp"

#include <string>
#include <vector>

namespace service {

// What the configuration names and this host does not have: secrets, accounts, units and programs of hooks;
// and outputs that the service's sandbox hides or makes read-only. Reads the disk alone: nothing is started
// or contacted. Each stands where the file names it.
std::vector<config::diagnostic> host_warnings(const config::outcome&, const std::string& file);

}  // namespace service
