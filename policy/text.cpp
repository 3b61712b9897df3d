#include "policy/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace policy {
namespace {

// Four decimal numbers up to 255, the first of them 127.
bool is_loopback_v4(std::string_view host)
{
    for (int part = 0; part < 4; ++part) {
        std::uint8_t value = 0;
        const auto [end, error] = std::from_chars(host.data(), host.data() + host.size(), value);
        const auto digits = static_cast<std::size_t>(end - host.data());
        if (error != std::errc() || (digits > 1 && host.front() == '0') || (part == 0 && value != 127))
            return false;
        host.remove_prefix(digits);
        if (part == 3) break;
        if (!host.starts_with('.')) return false;
        host.remove_prefix(1);
    }
    return host.empty();
}

// ::1, with any spelling of its zeros (RFC 4291 section 2.2).
bool is_loopback_v6(std::string_view host)
{
    const auto last = host.rfind(':');
    if (last == std::string_view::npos) return false;
    const auto zeros = host.substr(0, last + 1);
    auto one = host.substr(last + 1);
    if (one.size() > 4 || zeros.find_first_not_of("0:") != std::string_view::npos) return false;
    one.remove_prefix(std::min(one.find_first_not_of('0'), one.size()));
    const auto gap = zeros.find("::");
    const bool whole =
        gap == std::string_view::npos
            ? zeros.front() == '0' && std::ranges::count(zeros, ':') == 7
            : zeros.find("::", gap + 1) == std::string_view::npos && std::ranges::count(zeros, ':') <= 7;
    return whole && one == "1" && zeros.find("00000") == std::string_view::npos;
}

}  // namespace

code_point decode_utf8(std::string_view text, std::size_t at) noexcept
{
    static constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (at >= text.size()) return {};
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) return {lead, 1};
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || at + length > text.size()) return {};
    char32_t value = lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[at + i])) return {};
        value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
    }
    const bool surrogate = value >= 0xd800 && value <= 0xdfff;
    if (value < smallest[length] || value > 0x10ffff || surrogate) return {};
    return {value, length};
}

bool is_within(std::string_view path, std::string_view directory) noexcept
{
    if (!path.starts_with(directory)) return false;
    return path.size() == directory.size() || directory.ends_with('/') || path[directory.size()] == '/';
}

bool is_loopback(std::string_view host) noexcept
{
    return host == "localhost" || host.ends_with(".localhost") || is_loopback_v4(host) ||
           is_loopback_v6(host);
}

}  // namespace policy
