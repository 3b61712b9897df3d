#include "config/diagnostics.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace config {
namespace {

constexpr std::size_t longest_quote = 60;

}  // namespace

std::string to_string(const diagnostic& m)
{
    return m.file + ":" + std::to_string(m.line) + ":" + std::to_string(m.column) + ": " + m.text;
}

void diagnostics::error(place at, std::string text)
{
    errors_.push_back({at, std::move(text)});
}

void diagnostics::warn(place at, std::string text)
{
    warnings_.push_back({at, std::move(text)});
}

std::vector<diagnostic> diagnostics::errors(const std::string& file) const
{
    return sorted(errors_, file);
}

std::vector<diagnostic> diagnostics::warnings(const std::string& file) const
{
    return sorted(warnings_, file);
}

std::vector<diagnostic> diagnostics::sorted(std::vector<finding> all, const std::string& file)
{
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());

    std::vector<diagnostic> result;
    for (auto& one : all) {
        if (result.size() == limit) {
            result.push_back({file, one.at.line, one.at.column,
                              "and " + std::to_string(all.size() - limit) + " more from here on"});
            break;
        }
        result.push_back({file, one.at.line, one.at.column, std::move(one.text)});
    }
    return result;
}

std::string quoted(const std::string& text)
{
    std::string shown = "\"";
    for (const unsigned char c : text.substr(0, longest_quote)) {
        if (c >= 0x20 && c != 0x7f) {
            shown += static_cast<char>(c);
            continue;
        }
        char code[5];
        std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(c));
        shown += code;
    }
    return shown + (text.size() > longest_quote ? "…\"" : "\"");
}

}  // namespace config
