#pragma once

#include "policy/desired.hpp"
#include "policy/time.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

// How the values of the configuration are written (contract section 2). None of these looks at a range.

namespace config {

// `90s`, `15m`, `12h`, `30d`, `2w`, joined from the larger to the smaller unit as in `1d12h`; `0s`.
// Nothing for anything else, and for a number of more than nine digits.
std::optional<policy::duration> read_duration(std::string_view);

// A duration or a share of the lifetime: `33%`.
std::optional<policy::lead> read_lead(std::string_view);

// A plain decimal number of at most nine digits: neither `010` nor `0x10`, `1_000`, `+1` or `1.0`.
std::optional<int> read_integer(std::string_view);

// Exactly `true` or `false`.
std::optional<bool> read_boolean(std::string_view);

// Three octal digits, a 0 before them at will: `0640` and `640` are both rw-r-----.
std::optional<unsigned> read_mode(std::string_view);

}  // namespace config
