#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// The one time type of the project: wall clock, whole seconds, UTC. Compared, stored and printed as such,
// so that a stored instant and a computed one never differ by a fraction.

namespace policy {

using instant = std::chrono::sys_seconds;
using duration = std::chrono::seconds;

// --- Instants as text.

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
