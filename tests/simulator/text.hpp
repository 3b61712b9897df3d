#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Text helpers: encodings, digests, random names, the wall clock.

namespace simulator {

std::string base64_encode(std::string_view bytes);
std::string base64url_encode(std::string_view bytes);  // RFC 4648 section 5, without padding

// Skips line breaks and spaces; nullopt on any other invalid character.
std::optional<std::string> base64_decode(std::string_view text);

std::string sha256_hex(std::string_view bytes);

// Represents a secret in logs and responses: the first 16 hex digits of its SHA-256. Empty for an empty
// secret.
std::string fingerprint(std::string_view secret);

std::string random_hex(std::size_t bytes);
std::string random_uuid();

// Wall-clock time in milliseconds since 1970.
std::int64_t now_ms();

// Decodes %XX and, in forms, "+" as a space.
std::string percent_decode(std::string_view text, bool plus_is_blank);
std::string percent_encode(std::string_view text);

std::string lower_case(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

// strftime in UTC and the C locale.
std::string format_utc(std::int64_t milliseconds, const char* format);

// HTTP date format (RFC 9110 section 5.6.7).
std::string http_date(std::int64_t milliseconds);

}  // namespace simulator
