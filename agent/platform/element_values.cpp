#include "agent/platform/catalog_json.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/wiping_storage.hpp"

#include <boost/json.hpp>

#include <algorithm>

// The extraction rule of platform-api section 2.2, to the letter.

namespace platform {

namespace json = boost::json;

namespace {

const json::array* array_of(const json::object& object, std::string_view key)
{
    const auto* value = object.if_contains(json::string_view(key.data(), key.size()));
    return value == nullptr ? nullptr : value->if_array();
}

// The first entry of the list whose text under `key` is `wanted`.
const json::object* first_with(const json::array* list, std::string_view key, std::string_view wanted)
{
    if (list == nullptr) return nullptr;
    for (const auto& entry : *list) {
        const auto* object = entry.if_object();
        if (object != nullptr && text_of(*object, key) == wanted) return object;
    }
    return nullptr;
}

// The value, or nullptr and the sentence that says why there is none.
const json::string* value_of(const json::array& updates, const std::string& element, std::string& why)
{
    const auto* update = first_with(&updates, "id", element);
    if (update == nullptr) {
        why = "the action does not show an element " + element + ": `action form` lists what it has";
        return nullptr;
    }
    const auto* facet_values = object_of(*update, "facetValues");
    const auto* facets = facet_values == nullptr ? nullptr : array_of(*facet_values, "facets");
    const auto* facet = first_with(facets, "type", "fixedValue");
    if (facet == nullptr) {
        why = "the element " + element + " has no facet of type fixedValue: it shows no value";
        return nullptr;
    }
    const auto* outer = object_of(*facet, "value");
    const auto* value = outer == nullptr ? facet->if_contains("value") : outer->if_contains("value");
    if (value == nullptr || value->is_null()) {
        why = "the value of the element " + element + " is null: the platform has none yet";
        return nullptr;
    }
    if (outer == nullptr || !value->is_string()) {
        why = "the value of the element " + element + " is not a text";
        return nullptr;
    }
    return &value->get_string();
}

}  // namespace

policy::result<element_values> extract_values(std::string_view body, const std::vector<std::string>& elements)
{
    wiping_storage memory;
    const auto object = parse_object(body, &memory);
    if (!object) return object.error();
    const auto* updates = array_of(*object, "elementUpdates");
    if (updates == nullptr) return unexpected_answer("it has no list of elementUpdates");
    element_values found;
    for (const auto& element : elements) {
        std::string why;
        if (const auto* value = value_of(*updates, element, why))
            found.values[element] = crypto::secret(std::string_view(value->data(), value->size()));
        else
            found.missing[element] = std::move(why);
    }
    return found;
}

}  // namespace platform
