#include "agent/platform/redact.hpp"

#include <algorithm>
#include <array>

namespace platform {
namespace {

constexpr std::string_view mask = "[hidden]";
constexpr std::size_t longest_word = 40;  // longer than a UUID; tokens are longer than this

bool is_token_character(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == '~' || c == '+' || c == '=';
}

void hide(std::string& text, std::string_view secret)
{
    if (secret.empty()) return;
    for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at + mask.size()))
        text.replace(at, secret.size(), mask);
}

// The length of a run of token characters, cut words joined as base64 joins them.
std::size_t token_length(std::string_view text)
{
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_token_character) - text.begin());
}

std::string without_tokens(std::string_view text)
{
    std::string kept;
    bool credential = false;  // the next word is one, whatever its length
    while (!text.empty()) {
        const auto length = token_length(text);
        if (length == 0) {
            kept.push_back(text.front());
            text.remove_prefix(1);
            continue;
        }
        const auto word = text.substr(0, length);
        kept.append(credential || length > longest_word ? mask : word);
        credential = word == "Bearer" || word == "Basic" || word == "bearer" || word == "basic";
        text.remove_prefix(length);
    }
    return kept;
}

// One blank for every run of blanks and control characters.
std::string on_one_line(std::string_view text)
{
    std::string line;
    for (const char c : text) {
        const bool visible = static_cast<unsigned char>(c) > ' ' && c != '\x7f';
        if (visible)
            line.push_back(c);
        else if (!line.empty() && line.back() != ' ')
            line.push_back(' ');
    }
    if (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

// At a boundary of characters: no half of a UTF-8 sequence is left.
std::string shortened(std::string text)
{
    if (text.size() <= shown_length) return text;
    auto end = shown_length;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;
    return text.substr(0, end) + "...";
}

}  // namespace

std::string redact(std::string_view text, std::span<const std::string_view> hidden)
{
    std::string line(text.substr(0, 16 * shown_length));
    for (const auto secret : hidden)
        hide(line, secret);
    return shortened(without_tokens(on_one_line(line)));
}

}  // namespace platform
