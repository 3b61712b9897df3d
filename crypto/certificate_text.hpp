#pragma once

#include "policy/result.hpp"

#include <string>
#include <string_view>
#include <vector>

// Internal to this room: from the text that a platform sent to the DER of each thing in it.

namespace crypto {

// Undoes escapes, PEM and base64, in whatever order they were applied. The pieces may be several certificates
// in a row, or no certificate at all. errc::unusable_certificate: nothing in it, or cut off.
[[nodiscard]] policy::result<std::vector<std::string>> unwrap_certificates(std::string_view text);

// errc::unusable_certificate with this sentence; repeating the same call will not mend it.
policy::failure unusable(std::string what);

// For the reading of certificates alone: nothing we will ever see is larger.
inline constexpr std::size_t certificate_text_bytes = 512 << 10;

}  // namespace crypto
