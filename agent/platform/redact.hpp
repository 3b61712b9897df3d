#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

// Foreign text inside our sentences.

namespace platform {

inline constexpr std::size_t shown_length = 300;  // of foreign text in one sentence

// The text on one line, shortened, without control characters; every occurrence of a hidden text, whatever
// follows "Bearer" or "Basic", and every long run of token characters becomes "[hidden]".
std::string redact(std::string_view text, std::span<const std::string_view> hidden = {});

}  // namespace platform
