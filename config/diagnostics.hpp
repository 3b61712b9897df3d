#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

// What the reader has to say about a file, and where in it. Lines and columns count from 1.

namespace config {

struct place {
    int line = 1;
    int column = 1;

    auto operator<=>(const place&) const = default;
};

struct diagnostic {
    std::string file;
    int line = 1;
    int column = 1;
    std::string text;  // what is wrong, and what would be right; never the value of a secret

    bool operator==(const diagnostic&) const = default;
};

// "FILE:LINE:COLUMN: text" (contract section 2).
std::string to_string(const diagnostic&);

// Collects errors and warnings while a file is read, so that all of them are reported in one go.
class diagnostics {
public:
    void error(place, std::string text);
    void warn(place, std::string text);

    // In the order of their places, each once, at most `limit`, then a line that counts the others.
    std::vector<diagnostic> errors(const std::string& file) const;
    std::vector<diagnostic> warnings(const std::string& file) const;

    static constexpr std::size_t limit = 1000;

private:
    struct finding {
        place at;
        std::string text;
        auto operator<=>(const finding&) const = default;
    };
    static std::vector<diagnostic> sorted(std::vector<finding>, const std::string& file);

    std::vector<finding> errors_;
    std::vector<finding> warnings_;
};

// The text in quotes for a sentence: control characters escaped, cut when it is long. Not for secrets.
std::string quoted(const std::string& text);

}  // namespace config
