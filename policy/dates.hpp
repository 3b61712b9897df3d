#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// The only time type in the project: wall clock, whole seconds, UTC. Compared, stored and printed in the same
// resolution, so that a stored instant and a computed one never differ by a fraction.

namespace policy {

using instant = std::chrono::sys_seconds;
using duration = std::chrono::seconds;

// --- Instants as text

// ISO 8601, UTC, whole seconds: "2026-11-20T18:39:10Z".
std::string format_utc(instant);

// Reads every common spelling (contract section 3): ISO 8601 with or without fraction and offset, a date
// alone, a blank instead of the T; RFC 1123 and asctime; Unix seconds and milliseconds. Fractions are
// truncated, a missing offset means UTC, a leap second becomes the first second of the next minute. nullopt:
// any other text, or fields out of range.
std::optional<instant> parse_date(std::string_view text);

// For people: "3 min", "5 h", "41 d"; "0 s" for zero or negative durations.
std::string format_duration(duration);

}  // namespace policy
