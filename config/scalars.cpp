#include "config/scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace config {
namespace {

constexpr std::size_t longest_number = 9;  // digits: no sum of our units overflows

constexpr std::array<std::pair<char, std::int64_t>, 5> units = {
    {{'w', 7 * 86400}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

}  // namespace

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
    auto unit = units.begin();  // the next one must be smaller than the last
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

}  // namespace config
