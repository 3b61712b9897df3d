#include "policy/words.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace policy {
namespace {

constexpr std::size_t longest_guess = 40;  // longer words get no suggestion

std::size_t distance(const std::string& a, const std::string& b)
{
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        auto diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const auto replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

}  // namespace

std::string nearest(const std::string& text, const std::vector<std::string>& known)
{
    if (text.size() > longest_guess) return {};
    std::string best;
    auto least = std::max<std::size_t>(text.size() / 3, 1) + 1;
    for (const auto& word : known) {
        const auto d = distance(text, word);
        if (d >= least) continue;
        least = d;
        best = word;
    }
    return best;
}

}  // namespace policy
