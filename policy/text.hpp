#pragma once

#include <cstddef>
#include <string_view>

// Rules for characters, host names and paths that all modules share.

namespace policy {

// One UTF-8 code point (RFC 3629, table in section 4) and its length in bytes;
// a length of 0 means that the text is not valid UTF-8.
struct code_point {
    char32_t value = 0;
    std::size_t length = 0;
};
code_point decode_utf8(std::string_view text, std::size_t at = 0) noexcept;

// True for the second and later bytes of a multi-byte character: text must not be cut before one.
constexpr bool is_continuation(char byte) noexcept
{
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// True for the directory and everything below it; both are normalized absolute paths.
bool is_within(std::string_view path, std::string_view directory) noexcept;

// True for localhost, a name below it (RFC 6761 section 6.3) and a loopback address (127.0.0.0/8, ::1).
bool is_loopback(std::string_view host) noexcept;

}  // namespace policy
