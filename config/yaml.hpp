#pragma once

#include "config/diagnostics.hpp"

#include <string>
#include <string_view>
#include <vector>

// One YAML document as plain nodes that know where they stand. yaml-cpp is used here and nowhere else.

namespace config {

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
