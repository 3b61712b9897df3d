#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Digests and encodings of bytes. They throw only if OpenSSL has no SHA-256 or no random numbers.

namespace crypto {

// Two lower-case hex digits per byte.
std::string hex(std::string_view bytes);

// As 32 bytes, and as 64 lower-case hex digits.
std::string sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

// RFC 4648 section 4, padded, on a single line.
std::string base64(std::string_view bytes);

// Decodes RFC 4648 sections 4 and 5 (base64url), with blanks and line endings anywhere, with or without
// padding. nullopt: any other character, padding in the middle, or a length that no encoder produces.
std::optional<std::string> base64_decode(std::string_view text);

// This many bytes from the system's random source, as hex digits.
std::string random_hex(std::size_t bytes);

}  // namespace crypto
