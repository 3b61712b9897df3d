#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
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
    struct entry {
        place at;
        std::string text;
        auto operator<=>(const entry&) const = default;
    };
    static std::vector<diagnostic> sorted(std::vector<entry>, const std::string& file);

    std::vector<entry> errors_;
    std::vector<entry> warnings_;
};

// The text in quotes for a sentence: control characters escaped, cut when it is long. Not for secrets.
std::string quoted(const std::string& text);

// --- One YAML document as plain nodes that know where they stand. yaml-cpp is used here and nowhere else.

struct node {
    enum class kind { null, scalar, list, map };

    kind what = kind::null;
    place at = {};
    std::string text = {};         // of a scalar, as written and after `expand` with its variables filled in
    bool plain = false;            // of a scalar: not quoted, so that `true` and `8` are more than text
    bool faulty = false;           // already reported: the value is not to be used
    std::vector<node> keys = {};   // of a map: scalars, each text once
    std::vector<node> items = {};  // of a list, and the values of a map

    // The value of a key of a map, or nullptr.
    const node* find(const std::string& key) const;
};

// Reads exactly one document. Mistakes: a syntax error (then the only one, and the tree is not to be used), a
// second document, a key given twice or that is no word, anchors, aliases, merge keys, tags, characters that
// no text file has. Never throws, whatever the text.
node read_tree(const std::string& text, diagnostics&);

// Holds a text against YAML 1.2 before the library reads it: yaml-cpp accepts quotes that are never closed,
// comments without a blank before them, lists inside of values and more, and needs memory without bound for
// nested brackets. At most one mistake is reported, the first. False: the text is not to be parsed.
bool check_syntax(std::string_view text, diagnostics&);

}  // namespace config
