#pragma once

#include "policy/result.hpp"
#include "policy/stored.hpp"

#include <string>
#include <string_view>

// The records of the private store as JSON text. Facts of the look itself (whether a key is there, how the
// published directory looks) are not part of it.

namespace disk {

std::string to_json(const policy::stored_user&);
std::string to_json(const policy::stored_exposure&);

// errc::disk, retry::never: damaged, cut off, of a newer schema, or naming what can be no name. The sentence
// says what is wrong with "it": the caller names the file and the remedy.
[[nodiscard]] policy::result<policy::stored_user> stored_user_from(std::string_view json);
[[nodiscard]] policy::result<policy::stored_exposure> stored_exposure_from(std::string_view json);

}  // namespace disk
