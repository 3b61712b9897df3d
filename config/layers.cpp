#include "config/layers.hpp"

#include "config/names.hpp"

namespace config {

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

std::optional<std::string> layers::text(const std::string& key) const
{
    const auto* value = find(key);
    return value ? std::optional(value->text) : std::nullopt;
}

std::optional<std::string> layers::path(const std::string& key) const
{
    const auto* value = find(key);
    return value ? std::optional(normalised(value->text)) : std::nullopt;
}

std::string layers::text(const std::string& key, const std::string& fallback) const
{
    return text(key).value_or(fallback);
}

std::string layers::url(const std::string& key, const std::string& fallback) const
{
    auto address = text(key, fallback);
    while (address.ends_with('/'))
        address.pop_back();
    return address;
}

policy::duration layers::duration(const std::string& key, policy::duration fallback) const
{
    const auto* value = find(key);
    return value ? read_duration(value->text).value_or(fallback) : fallback;
}

int layers::integer(const std::string& key, int fallback) const
{
    const auto* value = find(key);
    return value ? read_integer(value->text).value_or(fallback) : fallback;
}

bool layers::boolean(const std::string& key, bool fallback) const
{
    const auto* value = find(key);
    return value ? read_boolean(value->text).value_or(fallback) : fallback;
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

}  // namespace config
