#include "config/yaml.hpp"

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

// Reads YAML documents from standard input, each terminated by NUL, and prints one line of JSON for each:
// the values as strings, or {"error": "LINE:COLUMN: TEXT"}. Used by judge_yaml.py.

namespace {

std::string json(const std::string& text)
{
    std::string quoted = "\"";
    for (const unsigned char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        if (c >= 0x20) {
            quoted += static_cast<char>(c);
            continue;
        }
        char code[7];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
        quoted += code;
    }
    return quoted + "\"";
}

std::string json(const config::node& value)
{
    using kind = config::node::kind;
    if (value.what == kind::null) return "\"\"";
    if (value.what == kind::scalar) return json(value.text);
    std::string inner;
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) inner += ",";
        if (value.what == kind::map) inner += json(value.keys[i].text) + ":";
        inner += json(value.items[i]);
    }
    return value.what == kind::map ? "{" + inner + "}" : "[" + inner + "]";
}

}  // namespace

int main()
{
    std::cin >> std::noskipws;
    for (std::string text; std::getline(std::cin, text, '\0');) {
        config::diagnostics found;
        const auto tree = config::read_tree(text, found);
        const auto mistakes = found.errors("");
        if (mistakes.empty())
            std::cout << json(tree) << "\n";
        else
            std::cout << "{\"error\":" << json(to_string(mistakes[0]).substr(1)) << "}\n";
    }
}
