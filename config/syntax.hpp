#pragma once

#include "config/mistake.hpp"

#include <string_view>

namespace config {

// Holds a text against YAML 1.2 before the library reads it: yaml-cpp accepts quotes that are never closed,
// comments without a blank before them, lists inside of values and more, and needs memory without bound for
// nested brackets. At most one mistake is reported, the first. False: the text is not to be parsed.
bool check_syntax(std::string_view text, findings&);

}  // namespace config
