#include "config/expand.hpp"

#include "config/names.hpp"

#include <string_view>

namespace config {
namespace {

constexpr std::string_view variable_prefix = "env:";

void expand_scalar(node& scalar, const environment& from, findings& found)
{
    const auto fail = [&](const std::string& text) {
        found.wrong(scalar.at, text);
        scalar.faulty = true;
    };
    const std::string_view raw = scalar.text;
    std::string filled;
    std::size_t done = 0;
    bool any = false;
    for (auto open = raw.find("${"); open != raw.npos; open = raw.find("${", done)) {
        filled += raw.substr(done, open - done);
        if (open > done && raw[open - 1] == '$') {
            filled += "{";
            done = open + 2;
            continue;
        }
        const auto end = raw.find('}', open);
        if (end == raw.npos) return fail("a ${ without its }; a literal ${ is written $${");
        const std::string name(raw.substr(open + 2, end - open - 2));
        if (name == "hostname") {
            filled += from.hostname;
        } else if (name.starts_with(variable_prefix) && is_variable(name.substr(variable_prefix.size()))) {
            const auto value = from.variable(name.substr(variable_prefix.size()));
            if (!value) {
                return fail("the environment variable " + name.substr(variable_prefix.size()) +
                            " is not set; set it where the agent starts");
            }
            filled += *value;
        } else {
            return fail(
                "${" + quoted(name).substr(1, quoted(name).size() - 2) +
                "} is not known; there are ${hostname} and ${env:NAME}, and a literal ${ is written $${");
        }
        any = true;
        done = end + 1;
    }
    filled += raw.substr(done);
    scalar.text = std::move(filled);
    if (any) scalar.plain = true;
}

}  // namespace

void expand(node& root, const environment& from, findings& found)
{
    if (root.what == node::kind::scalar && !root.faulty) expand_scalar(root, from, found);
    for (auto& item : root.items)
        expand(item, from, found);
}

}  // namespace config
