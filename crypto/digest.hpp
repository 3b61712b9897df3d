#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Digests and encodings of bytes. They throw only when OpenSSL has no SHA-256 or no random numbers.

namespace crypto {

// Two lower-case hex digits a byte.
std::string hex(std::string_view bytes);

// 32 bytes, and as 64 lower-case hex digits.
std::string sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

// RFC 4648 section 4, padded, on one line.
std::string base64(std::string_view bytes);

// Reads RFC 4648 sections 4 and 5 (base64url), with blanks and line ends anywhere, with padding or without.
// None: another character, padding within, or a length that no encoder produces.
std::optional<std::string> base64_decode(std::string_view text);

// So many bytes from the system's random source, as hex digits.
std::string random_hex(std::size_t bytes);

}  // namespace crypto
