#include "config/check.hpp"

#include "config/names.hpp"
#include "policy/nearest.hpp"

#include <algorithm>

namespace config {
namespace {

const field* find_field(const section& in, const std::string& name)
{
    const auto found =
        std::find_if(in.fields.begin(), in.fields.end(), [&](const field& f) { return name == f.name; });
    return found == in.fields.end() ? nullptr : &*found;
}

std::string names_of(std::span<const field> fields)
{
    std::string list;
    for (const auto& f : fields)
        list += (list.empty() ? "" : ", ") + std::string(f.name);
    return list;
}

std::string unknown_key(const std::string& key, const section& in)
{
    // the key itself may be the secret: `client_secret: {abc}` is a mapping
    if (in.secret) return "unknown key for " + std::string(in.about) + "; there are " + names_of(in.fields);

    const auto unknown = "unknown key " + config::quoted(key);
    std::vector<std::string> known;
    for (const auto& f : in.fields) {
        known.emplace_back(f.name);
        if (f.inner && f.shape == field::form::one && find_field(*f.inner, key))
            return unknown + "; it belongs under `" + f.name + "`";
    }
    const auto near = policy::nearest(key, known);
    return unknown + (near.empty() ? "; there are " + names_of(in.fields) : "; did you mean `" + near + "`?");
}

class checker {
public:
    explicit checker(findings& found) : found_(found) {}

    void section_of(node& map, const section& in)
    {
        for (std::size_t i = 0; i < map.keys.size(); ++i) {
            const auto* known = find_field(in, map.keys[i].text);
            if (known)
                field_of(map.items[i], *known);
            else
                found_.wrong(map.keys[i].at, unknown_key(map.keys[i].text, in));
        }
        for (const auto& f : in.fields)
            if (f.required && !map.find(f.name))
                found_.wrong(map.at, std::string(in.about) + " needs the key `" + f.name + "`");
        if (in.choices > 0) choice_of(map, in);
    }

private:
    void fault(node& at, const std::string& text)
    {
        found_.wrong(at.at, text);
        at.faulty = true;
    }

    void choice_of(node& map, const section& in)
    {
        const auto choices = in.fields.subspan(0, in.choices);
        const auto given =
            std::count_if(choices.begin(), choices.end(), [&](const field& f) { return map.find(f.name); });
        if (given == 1) return;
        const auto wanted =
            in.choices == 1 ? "`" + names_of(choices) + "`" : "exactly one of " + names_of(choices);
        fault(map, std::string(in.about) + " needs " + wanted);
    }

    void field_of(node& value, const field& f)
    {
        if (value.faulty) return;
        const std::string name = f.name;
        if (value.what == node::kind::null)
            return fault(value, "`" + name + "` has no value; give it one or remove the key");
        if (f.shape == field::form::names) return names_in(value, f);
        if (f.shape == field::form::one) return one_of(value, f, "`" + name + "`");

        if (value.what != node::kind::list)
            return fault(value, "`" + name + "` must be a list; write [ … ] or - …");
        for (auto& item : value.items)
            if (!item.faulty) one_of(item, f, "an item of `" + name + "`");
    }

    void one_of(node& value, const field& f, const std::string& label)
    {
        if (value.what == node::kind::null)
            return fault(value, label + " has no value; give it one or remove it");
        if (!f.inner) return scalar_of(value, *f.value, label);
        if (value.what == node::kind::map) return section_of(value, *f.inner);
        if (f.inner->secret)
            return fault(value,
                         label + " is a secret written into this file; put it elsewhere and write one of " +
                             sources_of(*f.inner));
        fault(value, label + " must be a mapping with the keys " + names_of(f.inner->fields));
    }

    void names_in(node& value, const field& f)
    {
        const auto label = "`" + std::string(f.name) + "`";
        if (value.what != node::kind::map)
            return fault(value, label + " must be a mapping; write {NAME: VALUE}");
        if (value.keys.empty()) return fault(value, label + " is empty; name at least one");
        for (std::size_t i = 0; i < value.keys.size(); ++i) {
            if (!is_variable(value.keys[i].text))
                found_.wrong(value.keys[i].at,
                             config::quoted(value.keys[i].text) + " is no name; use letters, digits and _");
            scalar_of(value.items[i], *f.value, config::quoted(value.keys[i].text));
        }
    }

    void scalar_of(node& value, const format& wanted, const std::string& label)
    {
        if (value.faulty) return;
        if (value.what == node::kind::null)
            return fault(value, label + " has no value; give it one or remove it");
        if (value.what != node::kind::scalar)
            return fault(value, label + " must be a single value, not a list or a mapping");
        const auto wrong = wanted.fault(value, wanted);
        if (wrong.empty()) return;
        const bool leads_with_value = wrong[0] == '"' || (wrong[0] >= '0' && wrong[0] <= '9');
        fault(value, label + (leads_with_value ? ": " : " ") + wrong);
    }

    static std::string sources_of(const section& in)
    {
        std::string list;
        for (const auto& f : in.fields)
            list += (list.empty() ? "{" : ", {") + std::string(f.name) + ": …}";
        return list;
    }

    findings& found_;
};

}  // namespace

void check(node& map, const section& in, findings& found)
{
    checker(found).section_of(map, in);
}

}  // namespace config
