#pragma once

#include "agent/platform/token_record.hpp"
#include "policy/result.hpp"

#include <string_view>

// The token record as the text of its file.

namespace platform {

crypto::secret write_tokens(const token_record&);

// errc::disk for a damaged text, errc::config for one that a newer version wrote; sentences go on from
// "FILE: ".
[[nodiscard]] policy::result<token_record> read_tokens(std::string_view text);

}  // namespace platform
