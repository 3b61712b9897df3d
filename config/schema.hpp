#pragma once

#include <string>

namespace config {

// The configuration as a JSON Schema (draft-07), for editors; printed from the tables that the reader uses.
// It knows every key, type, range and word; what one key says against another only the reader knows.
std::string schema();

}  // namespace config
