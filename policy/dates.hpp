#pragma once

#include "policy/time.hpp"

#include <string>

// Instants as text.

namespace policy {

// ISO 8601, UTC, whole seconds: "2026-11-20T18:39:10Z".
std::string format_utc(instant);

// For people: "3 min", "5 h", "41 d"; "0 s" for nothing or less.
std::string format_span(span);

}  // namespace policy
