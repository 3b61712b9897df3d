#include "config/addresses.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <utility>

namespace config {
namespace {

constexpr std::size_t longest_host = 253;  // RFC 1035 section 2.3.4, written out
constexpr std::size_t longest_url = 2000;

bool is_ipv4(const std::string& host)
{
    in_addr address{};
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& host)
{
    in6_addr address{};
    return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Letters, digits, `-`, `_` in labels of 1 to 63; what consists of digits and dots must be an IPv4 address.
bool is_host(const std::string& host)
{
    if (host.empty() || host.size() > longest_host) return false;
    if (host.find_first_not_of("0123456789.") == host.npos) return is_ipv4(host);
    std::size_t label = 0;
    for (const char c : host) {
        if (c == '.') {
            if (label == 0) return false;
            label = 0;
            continue;
        }
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '_' || (c == '-' && label > 0);
        if (!fine || ++label > 63) return false;
    }
    return true;
}

std::optional<std::uint16_t> read_port(std::string_view text)
{
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > 65535)
        return std::nullopt;
    return static_cast<std::uint16_t>(value);
}

// Host and, behind a colon, port; the colon without a port is a fault.
std::optional<std::pair<std::string, std::optional<std::uint16_t>>> read_authority(std::string_view text)
{
    std::string host;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == text.npos) return std::nullopt;
        host = text.substr(1, end - 1);
        if (!is_ipv6(host)) return std::nullopt;
        text.remove_prefix(end + 1);
    } else {
        const auto end = std::min(text.find(':'), text.size());
        host = text.substr(0, end);
        if (!is_host(host)) return std::nullopt;
        text.remove_prefix(end);
    }
    if (text.empty()) return std::pair{std::move(host), std::optional<std::uint16_t>()};
    if (text[0] != ':') return std::nullopt;
    const auto port = read_port(text.substr(1));
    if (!port) return std::nullopt;
    return std::pair{std::move(host), port};
}

}  // namespace

std::optional<host_port> read_host_port(std::string_view text)
{
    auto authority = read_authority(text);
    if (!authority || !authority->second) return std::nullopt;
    return host_port{std::move(authority->first), *authority->second};
}

std::optional<std::vector<host_port>> read_host_ports(std::string_view text)
{
    std::vector<host_port> all;
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        auto one = read_host_port(text.substr(begin, end - begin));
        if (!one) return std::nullopt;
        all.push_back(std::move(*one));
        begin = end + 1;
    }
    return all;
}

std::optional<url> read_url(std::string_view text)
{
    const auto colon = text.find("://");
    if (colon == text.npos || text.size() > longest_url) return std::nullopt;
    std::string scheme(text.substr(0, colon));
    std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });

    const auto rest = text.substr(colon + 3);
    const auto slash = std::min(rest.find('/'), rest.size());
    auto authority = read_authority(rest.substr(0, slash));
    if (!authority) return std::nullopt;

    const auto path = rest.substr(slash);
    const auto allowed = [](unsigned char c) {
        return c > 0x20 && c < 0x7f &&
               std::string_view("?#\"<>\\^`{|}").find(static_cast<char>(c)) == std::string_view::npos;
    };
    if (!std::all_of(path.begin(), path.end(), allowed)) return std::nullopt;
    return url{std::move(scheme), std::move(authority->first), authority->second, std::string(path)};
}

bool is_loopback(std::string_view host)
{
    const std::string text(host);
    if (text == "localhost") return true;
    in_addr v4{};
    if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    in6_addr v6{};
    return ::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace config
