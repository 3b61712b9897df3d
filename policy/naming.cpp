#include "policy/naming.hpp"

#include <algorithm>

namespace policy {
namespace {

constexpr std::string_view opening = "[exposure-agent ";

bool is_hex(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Consumes "key=value" from the front of text, up to the next blank.
std::optional<std::string> take(std::string_view& text, std::string_view key)
{
    if (!text.starts_with(key) || text.size() <= key.size() || text[key.size()] != '=') return std::nullopt;
    text.remove_prefix(key.size() + 1);
    const auto end = std::min(text.find(' '), text.size());
    std::string value(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (value.empty()) return std::nullopt;
    return value;
}

std::optional<marker> parse_marker(std::string_view inside)
{
    if (inside.ends_with(' ')) return std::nullopt;  // take() would skip it
    auto owner = take(inside, "owner");
    auto user = take(inside, "user");
    auto key = take(inside, "key");
    if (!owner || !user || !key || !inside.empty()) return std::nullopt;
    const auto name = parse_user_name(*user);
    if (!name || key->size() != 16 || !is_hex(*key)) return std::nullopt;
    return marker{.owner = *owner, .name = *name, .key = *key};
}

}  // namespace

std::optional<user_name> parse_user_name(std::string_view text)
{
    const auto slash = text.find('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size() ||
        text.find('/', slash + 1) != std::string_view::npos)
        return std::nullopt;
    return user_name{.exposure = std::string(text.substr(0, slash)),
                     .user = std::string(text.substr(slash + 1))};
}

const char* prefix_of(variant v) noexcept
{
    switch (v) {
        case variant::log:
            return "logs";
        case variant::health:
            return "health";
        case variant::lifecycle:
            return "lifecycle";
    }
    return "";
}

std::string generation_id(std::string_view fingerprint)
{
    return std::string(fingerprint.substr(0, 8));
}

bool is_generation_id(std::string_view text) noexcept
{
    return text.size() == 8 && is_hex(text);
}

std::string common_name(variant v, std::string_view tenant, std::string_view user,
                        std::string_view generation)
{
    std::string name = prefix_of(v);
    for (const auto part : {tenant, user, generation})
        name.append("-").append(part);
    return name;
}

std::string marker_key(std::string_view fingerprint)
{
    return std::string(fingerprint.substr(0, 16));
}

std::string marker_text(const marker& m)
{
    return std::string(opening) + "owner=" + m.owner + " user=" + m.name.text() + " key=" + m.key + "]";
}

std::string describe(std::string_view text, const marker& m)
{
    if (text.empty()) return marker_text(m);
    return std::string(text) + " " + marker_text(m);
}

std::optional<marker> find_marker(std::string_view description)
{
    for (auto at = description.rfind(opening); at != std::string_view::npos;
         at = at == 0 ? std::string_view::npos : description.rfind(opening, at - 1)) {
        const auto inside = description.substr(at + opening.size());
        const auto end = inside.find(']');
        if (end == std::string_view::npos) continue;
        if (auto found = parse_marker(inside.substr(0, end))) return found;
    }
    return std::nullopt;
}

std::string about(const std::string& whom, const std::string& sentence)
{
    const auto command = std::min(sentence.find("exposure-agent "), sentence.size());
    for (auto at = sentence.find(whom); at < command; at = sentence.find(whom, at + 1)) {
        const auto end = at + whom.size();
        const bool starts = at == 0 || sentence[at - 1] == ' ';
        if (starts && (end == sentence.size() ||
                       std::string_view(" :,;.").find(sentence[end]) != std::string_view::npos))
            return sentence;
    }
    return whom + ": " + sentence;
}

bool is_cut_off(std::string_view shown, std::string_view sent)
{
    return shown.size() < sent.size() && sent.starts_with(shown) &&
           shown.find(opening) != std::string_view::npos;
}

}  // namespace policy
