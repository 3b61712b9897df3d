#include "config/reader.hpp"

#include "config/values.hpp"
#include "policy/words.hpp"

#include <algorithm>
#include <string_view>

namespace config {
namespace {

constexpr std::string_view variable_prefix = "env:";

void expand(node& scalar, const environment& from, diagnostics& found)
{
    const auto fail = [&](const std::string& text) {
        found.error(scalar.at, text);
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
        if (end == raw.npos) return fail("unclosed ${; write $${ for a literal ${");
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
                "} is not a known variable; use ${hostname} or ${env:NAME}, and $${ for a literal ${");
        }
        any = true;
        done = end + 1;
    }
    filled += raw.substr(done);
    scalar.text = std::move(filled);
    if (any) scalar.plain = true;
}

const key* find_key(const section& in, const std::string& name)
{
    const auto found =
        std::find_if(in.keys.begin(), in.keys.end(), [&](const key& f) { return name == f.name; });
    return found == in.keys.end() ? nullptr : &*found;
}

std::string names_of(std::span<const key> fields)
{
    std::string list;
    for (const auto& f : fields)
        list += (list.empty() ? "" : ", ") + std::string(f.name);
    return list;
}

std::string unknown_key(const std::string& key, const section& in)
{
    // the key itself may be the secret: `client_secret: {abc}` is a mapping
    if (in.secret) return "unknown key for " + std::string(in.about) + "; known keys: " + names_of(in.keys);

    const auto unknown = "unknown key " + config::quoted(key);
    std::vector<std::string> known;
    for (const auto& f : in.keys) {
        known.emplace_back(f.name);
        if (f.inner && f.shape == key::form::one && find_key(*f.inner, key))
            return unknown + "; it belongs under `" + f.name + "`";
    }
    const auto near = policy::nearest(key, known);
    return unknown + (near.empty() ? "; known keys: " + names_of(in.keys) : "; did you mean `" + near + "`?");
}

class checker {
public:
    checker(const environment& from, diagnostics& found) : from_(from), found_(found) {}

    void section_of(node& map, const section& in)
    {
        for (std::size_t i = 0; i < map.keys.size(); ++i) {
            const auto* known = find_key(in, map.keys[i].text);
            if (known)
                field_of(map.items[i], *known);
            else
                found_.error(map.keys[i].at, unknown_key(map.keys[i].text, in));
        }
        for (const auto& f : in.keys)
            if (f.required && !map.find(f.name))
                found_.error(map.at, std::string(in.about) + " needs the key `" + f.name + "`");
        if (in.choices > 0) choice_of(map, in);
    }

private:
    void fault(node& at, const std::string& text)
    {
        found_.error(at.at, text);
        at.faulty = true;
    }

    void choice_of(node& map, const section& in)
    {
        const auto choices = in.keys.subspan(0, in.choices);
        const auto given =
            std::count_if(choices.begin(), choices.end(), [&](const key& f) { return map.find(f.name); });
        if (given == 1) return;
        const auto wanted =
            in.choices == 1 ? "`" + names_of(choices) + "`" : "exactly one of " + names_of(choices);
        fault(map, std::string(in.about) + " needs " + wanted);
    }

    void field_of(node& value, const key& f)
    {
        if (value.faulty) return;
        const std::string name = f.name;
        if (value.what == node::kind::null)
            return fault(value, "`" + name + "` has no value; give it one or remove the key");
        if (f.shape == key::form::names) return names_in(value, f);
        if (f.shape == key::form::one) return one_of(value, f, "`" + name + "`");

        if (value.what != node::kind::list)
            return fault(value, "`" + name + "` must be a list; write [ … ] or - …");
        for (auto& item : value.items)
            if (!item.faulty) one_of(item, f, "an item of `" + name + "`");
    }

    void one_of(node& value, const key& f, const std::string& label)
    {
        if (value.what == node::kind::null)
            return fault(value, label + " has no value; give it one or remove it");
        if (!f.inner) return scalar_of(value, *f.value, label);
        if (value.what == node::kind::map) return section_of(value, *f.inner);
        if (f.inner->secret)
            return fault(value,
                         label + " is a secret written into this file; put it elsewhere and write one of " +
                             sources_of(*f.inner));
        fault(value, label + " must be a mapping with the keys " + names_of(f.inner->keys));
    }

    void names_in(node& value, const key& f)
    {
        const auto label = "`" + std::string(f.name) + "`";
        if (value.what != node::kind::map)
            return fault(value, label + " must be a mapping; write {NAME: VALUE}");
        if (value.keys.empty()) return fault(value, label + " is empty; add at least one");
        for (std::size_t i = 0; i < value.keys.size(); ++i) {
            if (!is_variable(value.keys[i].text))
                found_.error(value.keys[i].at, config::quoted(value.keys[i].text) +
                                                   " is not a valid name; use letters, digits and _");
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
        expand(value, from_, found_);
        if (value.faulty) return;
        const auto wrong = wanted.fault(value, wanted);
        if (wrong.empty()) return;
        const bool leads_with_value = wrong[0] == '"' || (wrong[0] >= '0' && wrong[0] <= '9');
        fault(value, label + (leads_with_value ? ": " : " ") + wrong);
    }

    static std::string sources_of(const section& in)
    {
        std::string list;
        for (const auto& f : in.keys)
            list += (list.empty() ? "{" : ", {") + std::string(f.name) + ": …}";
        return list;
    }

    const environment& from_;
    diagnostics& found_;
};

}  // namespace

void check(node& map, const section& in, const environment& from, diagnostics& found)
{
    checker(from, found).section_of(map, in);
}

layers::layers(const node* nearest)
{
    if (nearest && nearest->what == node::kind::map) maps_.push_back(nearest);
}

layers layers::over(const layers& defaults) const
{
    auto both = *this;
    both.maps_.insert(both.maps_.end(), defaults.maps_.begin(), defaults.maps_.end());
    return both;
}

layers layers::in(const std::string& key) const
{
    layers inner;
    for (const auto* map : maps_)
        inner = inner.over(layers(map->find(key)));
    return inner;
}

const node* layers::find(const std::string& key) const
{
    for (const auto* map : maps_)
        if (const auto* value = map->find(key)) return value->faulty ? nullptr : value;
    return nullptr;
}

bool layers::has(const std::string& key) const
{
    for (const auto* map : maps_)
        if (map->find(key)) return true;
    return false;
}

place layers::where(const std::string& key) const
{
    for (const auto* map : maps_)
        if (const auto* value = map->find(key)) return value->at;
    return maps_.empty() ? place{} : maps_.front()->at;
}

std::string layers::text(const std::string& key) const
{
    const auto* value = find(key);
    return value ? value->text : std::string();
}

std::vector<const node*> layers::list(const std::string& key) const
{
    std::vector<const node*> usable;
    const auto* value = find(key);
    if (!value || value->what != node::kind::list) return usable;
    for (const auto& item : value->items)
        if (!item.faulty) usable.push_back(&item);
    return usable;
}

void fill(const section& in, void* object, const layers& from)
{
    for (const auto& one : in.keys)
        if (one.fill) one.fill(object, from, one);
}

}  // namespace config
