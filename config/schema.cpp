#include "config/keys.hpp"
#include "config/parse.hpp"

#include <set>
#include <string_view>
#include <vector>

namespace config {
namespace {

constexpr const char* variable_pattern =
    R"(\$\{)";  // values with ${…} are checked only by the reader, which expands them

std::string json(std::string_view text)
{
    std::string escaped = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') escaped += '\\';
        escaped += c;
    }
    return escaped + "\"";
}

std::string member(const char* name, const std::string& value)
{
    return json(name) + ":" + value;
}

std::string joined(const std::vector<std::string>& parts)
{
    std::string all;
    for (const auto& part : parts)
        all += (all.empty() ? "" : ",") + part;
    return all;
}

std::string object(const std::vector<std::string>& members)
{
    return "{" + joined(members) + "}";
}

std::string array(const std::vector<std::string>& items)
{
    return "[" + joined(items) + "]";
}

const std::string& variable()
{
    static const auto text =
        object({member("type", json("string")), member("pattern", json(variable_pattern))});
    return text;
}

std::string type_of(const format& value)
{
    const std::string_view type = value.type;
    if (!value.words.empty()) {
        std::vector<std::string> words;
        for (const auto* word : value.words)
            words.push_back(json(word));
        return member("anyOf", array({object({member("enum", array(words))}), variable()}));
    }
    if (type == "boolean") return member("anyOf", array({object({member("type", json(type))}), variable()}));
    if (type == "integer") {
        const auto number =
            object({member("type", json(type)), member("minimum", std::to_string(value.least)),
                    member("maximum", std::to_string(value.most))});
        return member("anyOf", array({number, variable()}));
    }
    // a mode may be unquoted, which makes it a number
    const auto types = type == "mode" ? array({json("string"), json("integer")}) : json("string");
    if (!value.pattern) return member("type", types);
    return member("type", types) + "," +
           member("pattern", json("(" + std::string(value.pattern) + ")|" + variable_pattern));
}

std::string value_of(const key& f)
{
    if (f.inner) return member("$ref", json("#/definitions/" + std::string(f.inner->id)));
    return type_of(*f.value);
}

std::string property(const key& f)
{
    std::vector<std::string> members = {member("description", json(f.about))};
    switch (f.shape) {
        case key::form::one:
            // draft-07 ignores everything next to a $ref
            members.push_back(f.inner ? member("allOf", array({object({value_of(f)})})) : value_of(f));
            break;
        case key::form::list:
            members.push_back(member("type", json("array")));
            members.push_back(member("items", object({value_of(f)})));
            break;
        case key::form::names:
            members.push_back(member("type", json("object")));
            members.push_back(member("minProperties", "1"));
            members.push_back(member("additionalProperties", object({value_of(f)})));
            break;
    }
    if (const auto fallback = f.fallback ? f.fallback() : std::string(); !fallback.empty())
        members.push_back(member("default", fallback));
    return member(f.name, object(members));
}

std::vector<std::string> members_of(const section& in)
{
    std::vector<std::string> properties, required, choices;
    for (std::size_t i = 0; i < in.keys.size(); ++i) {
        const auto& f = in.keys[i];
        properties.push_back(property(f));
        if (f.required) required.push_back(json(f.name));
        if (i < in.choices) choices.push_back(object({member("required", array({json(f.name)}))}));
    }
    std::vector<std::string> members = {member("type", json("object")),
                                        member("additionalProperties", "false"),
                                        member("properties", object(properties))};
    if (!required.empty()) members.push_back(member("required", array(required)));
    if (!choices.empty()) members.push_back(member("oneOf", array(choices)));
    return members;
}

void define(const section& in, std::set<std::string>& done, std::vector<std::string>& definitions)
{
    for (const auto& f : in.keys) {
        if (!f.inner || !done.insert(f.inner->id).second) continue;
        definitions.push_back(member(f.inner->id, object(members_of(*f.inner))));
        define(*f.inner, done, definitions);
    }
}

// Two spaces per level, one member per line.
std::string indented(const std::string& compact)
{
    std::string text;
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < compact.size(); ++i) {
        const char c = compact[i];
        const auto line = [&] { text += "\n" + std::string(2 * depth, ' '); };
        if (c == '"' && (i == 0 || compact[i - 1] != '\\' || (i > 1 && compact[i - 2] == '\\')))
            in_string = !in_string;
        if (in_string || std::string_view("{}[],:").find(c) == std::string_view::npos) {
            text += c;
        } else if (c == '{' || c == '[') {
            text += c;
            const bool empty = compact[i + 1] == (c == '{' ? '}' : ']');
            if (empty) {
                text += compact[++i];
                continue;
            }
            ++depth;
            line();
        } else if (c == '}' || c == ']') {
            --depth;
            line();
            text += c;
        } else {
            text += c;
            if (c == ':') text += ' ';
            if (c == ',') line();
        }
    }
    return text + "\n";
}

}  // namespace

std::string schema()
{
    const auto& root = root_section();
    std::set<std::string> done;
    std::vector<std::string> definitions;
    define(root, done, definitions);

    auto members = members_of(root);
    members.insert(members.begin(),
                   {member("$schema", json("http://json-schema.org/draft-07/schema#")),
                    member("title", json("exposure-agent")), member("description", json(root.about))});
    members.push_back(member(
        "anyOf",
        R"([{"required":["exposures"]},{"required":["credentials"]},{"properties":{"identity":{"required":["publish"]}}}])"));
    members.push_back(member("definitions", object(definitions)));
    return indented(object(members));
}

}  // namespace config
