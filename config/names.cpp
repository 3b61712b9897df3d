#include "config/names.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace config {
namespace {

constexpr std::size_t longest_name = 64;
constexpr std::size_t longest_topic = 249;
constexpr std::size_t longest_file_name = 255;  // NAME_MAX, and systemd's UNIT_NAME_MAX
constexpr std::size_t longest_path = 4095;      // PATH_MAX without the NUL
constexpr std::uint64_t no_id = 4294967295;     // (uid_t)-1: chown(2) takes it for "leave it as it is"
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

// 1 to `most` characters, each alphanumeric or one of `others`.
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

}  // namespace config
