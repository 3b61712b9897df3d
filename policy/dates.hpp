#pragma once

#include "policy/time.hpp"

#include <optional>
#include <string>
#include <string_view>

// Instants as text.

namespace policy {

// ISO 8601, UTC, whole seconds: "2026-11-20T18:39:10Z".
std::string format_utc(instant);

// Reads every usual spelling (contract section 3): ISO 8601 with or without fraction and offset, a date
// alone, a blank for the T; RFC 1123 and asctime; Unix seconds and milliseconds. A fraction is cut off, a
// missing offset means UTC, a leap second is the next minute's first. None: any other text, or fields out of
// range.
std::optional<instant> parse_date(std::string_view text);

// For people: "3 min", "5 h", "41 d"; "0 s" for nothing or less.
std::string format_duration(duration);

}  // namespace policy
