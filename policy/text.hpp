#pragma once

#include <cstddef>
#include <string_view>

// What every room must read alike: characters, and the names of this machine.

namespace policy {

// One code point of UTF-8 (RFC 3629, table in section 4), and its length in bytes; no length: this is not
// UTF-8.
struct code_point {
    char32_t value = 0;
    std::size_t length = 0;
};
code_point decode_utf8(std::string_view text, std::size_t at = 0) noexcept;

// A byte within a character, not at its beginning: cut before it, and half a character is left.
constexpr bool is_continuation(char byte) noexcept
{
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// localhost, a name below it (RFC 6761 section 6.3), or an address of this machine alone (127.0.0.0/8, ::1).
bool is_loopback(std::string_view host) noexcept;

}  // namespace policy
