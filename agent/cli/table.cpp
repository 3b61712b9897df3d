#include "agent/cli/table.hpp"

#include <algorithm>

namespace cli {
namespace {

// Characters, not bytes: names of remote users may be anything.
std::size_t width_of(const std::string& text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

table::table(std::vector<std::string> header)
{
    std::vector<cell> row;
    for (auto& text : header)
        row.push_back({std::move(text)});
    rows_.push_back(std::move(row));
}

void table::add(std::vector<cell> row)
{
    for (auto& c : row)
        std::ranges::replace_if(
            c.text, [](char ch) { return static_cast<unsigned char>(ch) < 0x20 || ch == 0x7f; }, '?');
    rows_.push_back(std::move(row));
}

std::string table::text() const
{
    if (empty()) return "";
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width_of(row[i].text));
    std::string out;
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            out += painted(row[i].text, row[i].paint);
            if (i + 1 < row.size()) out += std::string(widths[i] - width_of(row[i].text) + 2, ' ');
        }
        out += "\n";
    }
    return out;
}

}  // namespace cli
