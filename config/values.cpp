#include "config/values.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <utility>

namespace config {
namespace {

constexpr std::size_t longest_name = 64;
constexpr std::size_t longest_topic = 249;
constexpr std::size_t longest_file_name = 255;  // NAME_MAX, and systemd's UNIT_NAME_MAX
constexpr std::size_t longest_path = 4095;      // PATH_MAX without the NUL
constexpr std::uint64_t no_id = 4294967295;     // (uid_t)-1: to chown(2) it means "leave unchanged"
constexpr std::size_t longest_email = 254;      // RFC 5321 section 4.5.3.1.3

bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool is_alnum(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z') || is_digit(c);
}

// 1 to `most` characters, each of them alphanumeric or in `others`.
bool consists_of(std::string_view text, std::string_view others, std::size_t most)
{
    return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [&](char c) {
        return is_alnum(c) || others.find(c) != others.npos;
    });
}

bool is_dots(std::string_view text)
{
    return text == "." || text == "..";
}

constexpr std::size_t longest_number = 9;  // digits: no sum of our units overflows

constexpr std::array<std::pair<char, std::int64_t>, 5> units = {
    {{'w', 7 * 86400}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

constexpr std::size_t longest_host = 253;  // RFC 1035 section 2.3.4, in text form
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

// Labels of 1 to 63 letters, digits, `-` and `_`; digits and dots alone must form an IPv4 address.
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

// A host and, after a colon, a port; a colon without a port is an error.
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

bool is_name(std::string_view text)
{
    return !text.empty() && text.size() <= longest_name && text.back() != '-' &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

bool is_owner(std::string_view text)
{
    return consists_of(text, "._-", longest_name);
}

bool is_tenant(std::string_view text)
{
    return consists_of(text, "._-", longest_name) && is_alnum(text[0]);
}

bool is_topic(std::string_view text)
{
    return consists_of(text, "._-", longest_topic) && !is_dots(text);
}

bool is_email(std::string_view text)
{
    const auto at = text.find('@');
    if (at == text.npos || at == 0 || text.size() > longest_email) return false;
    const auto mailbox = text.substr(0, at);
    const auto clean = std::none_of(mailbox.begin(), mailbox.end(), [](unsigned char c) {
        return c <= 0x20 || c == 0x7f || c == '<' || c == '>' || c == ',' || c == ';';
    });
    return clean && consists_of(text.substr(at + 1), ".-", longest_email);
}

bool is_variable(std::string_view text)
{
    return consists_of(text, "_", longest_file_name) && !is_digit(text[0]);
}

bool is_credential(std::string_view text)
{
    return !text.empty() && text.size() <= longest_file_name && !is_dots(text) &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return c > 0x20 && c < 0x7f && c != '/' && c != ':'; });
}

bool is_account(std::string_view text)
{
    if (text.empty() || text.size() > longest_file_name || text[0] == '-') return false;
    if (std::all_of(text.begin(), text.end(), is_digit)) {
        std::uint64_t id = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
        return error == std::errc() && id < no_id;
    }
    return std::none_of(text.begin(), text.end(), [](unsigned char c) {
        return c <= 0x20 || c == 0x7f || c == '/' || c == ':' || c == ',';
    });
}

std::optional<std::string> unit_name(std::string_view text)
{
    static constexpr std::array<std::string_view, 10> types = {".service", ".socket", ".target",    ".timer",
                                                               ".path",    ".mount",  ".automount", ".swap",
                                                               ".slice",   ".scope"};

    if (!consists_of(text, ":-_.\\@", longest_file_name) || text[0] == '-' || text[0] == '.' ||
        text[0] == '@')
        return std::nullopt;
    std::string name(text);
    const auto typed =
        std::find_if(types.begin(), types.end(), [&](auto type) { return text.ends_with(type); });
    if (typed == types.end()) name += types[0];
    if (name.size() > longest_file_name || name.find("@.") != name.npos) return std::nullopt;
    return name;
}

bool has_control(std::string_view text)
{
    return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool is_path(std::string_view text)
{
    if (!text.starts_with('/') || text.size() > longest_path || has_control(text)) return false;
    for (std::size_t begin = 1; begin <= text.size();) {
        const auto end = std::min(text.find('/', begin), text.size());
        const auto part = text.substr(begin, end - begin);
        if (part == ".." || part.size() > longest_file_name) return false;
        begin = end + 1;
    }
    return true;
}

std::string normalised(std::string_view path)
{
    std::string clean;
    for (std::size_t begin = 1; begin <= path.size();) {
        const auto end = std::min(path.find('/', begin), path.size());
        const auto part = path.substr(begin, end - begin);
        if (!part.empty() && part != ".") clean.append("/").append(part);
        begin = end + 1;
    }
    return clean.empty() ? "/" : clean;
}

std::optional<int> read_integer(std::string_view text)
{
    if (text.empty() || text.size() > longest_number || !std::all_of(text.begin(), text.end(), is_digit))
        return std::nullopt;
    if (text[0] == '0' && text.size() > 1) return std::nullopt;
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

std::optional<policy::duration> read_duration(std::string_view text)
{
    if (text.empty()) return std::nullopt;
    std::int64_t total = 0;
    auto unit = units.begin();  // units must come in descending order
    while (!text.empty()) {
        const auto digits = std::find_if_not(text.begin(), text.end(), is_digit) - text.begin();
        const auto number = read_integer(text.substr(0, static_cast<std::size_t>(digits)));
        text.remove_prefix(static_cast<std::size_t>(digits));
        if (!number || text.empty()) return std::nullopt;

        unit = std::find_if(unit, units.end(), [&](const auto& known) { return known.first == text[0]; });
        if (unit == units.end()) return std::nullopt;
        total += *number * unit->second;
        ++unit;
        text.remove_prefix(1);
    }
    return policy::duration(total);
}

std::string write_duration(policy::duration duration)
{
    for (const auto& [unit, seconds] : units)
        if (unit != 'w' && duration.count() % seconds == 0 && duration.count() / seconds > 1)
            return std::to_string(duration.count() / seconds) + unit;
    return std::to_string(duration.count()) + "s";
}

std::optional<policy::lead> read_lead(std::string_view text)
{
    if (text.ends_with('%')) {
        const auto share = read_integer(text.substr(0, text.size() - 1));
        return share ? std::optional<policy::lead>(policy::percent{*share}) : std::nullopt;
    }
    const auto duration = read_duration(text);
    return duration ? std::optional<policy::lead>(*duration) : std::nullopt;
}

std::optional<bool> read_boolean(std::string_view text)
{
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
}

std::optional<unsigned> read_mode(std::string_view text)
{
    if (text.size() == 4 && text[0] == '0') text.remove_prefix(1);
    if (text.size() != 3) return std::nullopt;
    unsigned mode = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    return error == std::errc() && end == text.data() + text.size() ? std::optional<unsigned>(mode)
                                                                    : std::nullopt;
}

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

}  // namespace config
