#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Diagnostics about a file and their positions. Lines and columns count from 1.

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
    std::string text;  // what is wrong and what would be valid; never a secret's value

    bool operator==(const diagnostic&) const = default;
};

// "FILE:LINE:COLUMN: text" (contract section 2).
std::string to_string(const diagnostic&);

// Collects errors and warnings while a file is read, to report all of them at once.
class diagnostics {
public:
    void error(place, std::string text);
    void warn(place, std::string text);

    // Sorted by position, without duplicates, at most `limit`, then one line that counts the rest.
    std::vector<diagnostic> errors(const std::string& file) const;
    std::vector<diagnostic> warnings(const std::string& file) const;

    static constexpr std::size_t limit = 1000;

private:
    struct entry {
        place at;
        std::string text;
        auto operator<=>(const entry&) const = default;
    };
    static std::vector<diagnostic> sorted(std::vector<entry>, const std::string& file);

    std::vector<entry> errors_;
    std::vector<entry> warnings_;
};

// The text in quotes for a message: control characters escaped, truncated if long. Not for secrets.
std::string quoted(const std::string& text);

// --- One YAML document as plain nodes with their positions. Nothing else uses yaml-cpp.

struct node {
    enum class kind { null, scalar, list, map };

    kind what = kind::null;
    place at = {};
    std::string text = {};         // scalar: as written, and after `expand` with its variables expanded
    bool plain = false;            // scalar: not quoted, so that `true` and `8` may be more than text
    bool faulty = false;           // already reported: do not use the value
    std::vector<node> keys = {};   // map: scalars, without duplicates
    std::vector<node> items = {};  // of a list, or the values of a map

    // The value of a map's key; nullptr when there is none.
    const node* find(const std::string& key) const;
};

// Reads exactly one document. Reports a syntax error (alone; the tree must not be used), a second document,
// duplicate or non-scalar keys, anchors, aliases, merge keys, tags, and characters that are not valid in
// text. Never throws, for any text.
node read_tree(const std::string& text, diagnostics&);

// Checks a text against YAML 1.2 before yaml-cpp parses it: yaml-cpp accepts unclosed quotes, comments
// without a preceding blank, lists inside values and more, and needs unbounded memory for nested brackets.
// Reports at most one error, the first. False: the text must not be parsed.
bool check_syntax(std::string_view text, diagnostics&);

}  // namespace config
