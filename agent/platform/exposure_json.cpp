#include "agent/platform/exposure_json.hpp"

#include "agent/platform/json.hpp"
#include "agent/platform/paging.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::size_t id_length = 200;

// Ids become segments of paths: one that could name another path is none.
bool usable_id(std::string_view id)
{
    if (id.empty() || id.size() > id_length || id == "." || id == "..") return false;
    return std::ranges::none_of(id, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

std::string first_of(const json::object& object, std::initializer_list<std::string_view> keys)
{
    for (const auto key : keys)
        if (auto text = text_of(object, key); !text.empty()) return text;
    return {};
}

std::optional<policy::business_group> read_group(const json::object& object)
{
    policy::business_group group{.id = first_of(object, {"businessGroupId", "spaceID", "spaceId", "space"}),
                                 .name = first_of(object, {"businessGroupName", "spaceName"})};
    if (group.id.empty() && group.name.empty()) return std::nullopt;
    return group;
}

policy::remote_status read_status(std::string_view text)
{
    return text == "READY" ? policy::remote_status::ready : policy::remote_status::in_progress;
}

std::string read_contact(const json::object& object)
{
    if (const auto* contact = object_of(object, "contact"))
        if (auto email = text_of(*contact, "email"); !email.empty()) return email;
    return first_of(object, {"contact.email", "contact"});
}

struct read_instant {
    std::optional<policy::instant> when;
    bool unreadable = false;
};

// An instant of the year 1970 or before is how some platforms write "not set".
read_instant read_date(const json::object& object, std::string_view key)
{
    const auto text = text_of(object, key);
    if (text.empty()) return {};
    const auto when = policy::parse_date(text);
    if (!when) return {.when = std::nullopt, .unreadable = true};
    if (*when < policy::instant(std::chrono::sys_days(std::chrono::year(1971) / 1 / 1))) return {};
    return {.when = when};
}

policy::remote_instance instance_from(const json::object& object)
{
    policy::remote_instance instance{.id = text_of(object, "id"),
                                     .name = text_of(object, "name"),
                                     .status_text = text_of(object, "status"),
                                     .group = read_group(object)};
    instance.status = read_status(instance.status_text);
    return instance;
}

policy::remote_user user_from(const json::object& object)
{
    const auto expiration = read_date(object, "expirationDate");
    const auto description = text_of(object, "description");
    policy::remote_user user{.id = text_of(object, "id"),
                             .name = text_of(object, "name"),
                             .status_text = text_of(object, "status"),
                             .consumer_group = text_of(object, "consumerGroup"),
                             .contact = read_contact(object),
                             .created_by = text_of(object, "createdBy"),
                             .creation_date = read_date(object, "creationDate").when,
                             .expiration_date = expiration.when,
                             .expiration_unreadable = expiration.unreadable,
                             .description = description,
                             .mark = policy::find_marker(description)};
    user.status = read_status(user.status_text);
    return user;
}

struct list {
    json::array items;
    bool cut_off = false;
};

policy::result<list> read_list(std::string_view body, json::storage_ptr storage)
{
    auto value = parse_json(body, storage);
    if (!value) return value.error();
    if (auto* items = value->if_array()) return list{.items = std::move(*items)};
    auto* object = value->if_object();
    auto* items = object == nullptr ? nullptr : object->if_contains("items");
    if (items == nullptr) return unexpected_answer("it is not a list: it has no \"items\"");
    if (items->is_null()) return list{.items = json::array(storage), .cut_off = shows_more(*object, 0)};
    if (!items->is_array()) return unexpected_answer("it is not a list: its \"items\" are none");
    const bool more = shows_more(*object, items->get_array().size());
    return list{.items = std::move(items->get_array()), .cut_off = more};
}

void add_group(json::object& body, policy::variant variant, const policy::business_group& group)
{
    const bool health = variant == policy::variant::health;
    if (!group.id.empty()) body[health ? "spaceID" : "businessGroupId"] = group.id;
    body[health ? "spaceName" : "businessGroupName"] = group.name;
}

}  // namespace

policy::result<std::vector<policy::remote_instance>> read_instances(std::string_view body)
{
    json::monotonic_resource memory;
    const auto found = read_list(body, &memory);
    if (!found) return found.error();
    std::vector<policy::remote_instance> instances;
    for (const auto& item : found->items) {
        if (!item.is_object()) return unexpected_answer("an entry of its list is not an object");
        instances.push_back(instance_from(item.get_object()));
        if (!usable_id(instances.back().id)) return unexpected_answer("an instance in it has no usable id");
    }
    return instances;
}

policy::result<user_list> read_users(std::string_view body)
{
    json::monotonic_resource memory;
    const auto found = read_list(body, &memory);
    if (!found) return found.error();
    user_list users{.users = {}, .cut_off = found->cut_off};
    users.users.reserve(found->items.size());
    for (const auto& item : found->items) {
        auto user = item.is_object() ? user_from(item.get_object()) : policy::remote_user();
        if (usable_id(user.id))
            users.users.push_back(std::move(user));
        else
            users.cut_off = true;
    }
    return users;
}

policy::result<user_detail> read_user(std::string_view body)
{
    const auto object = parse_object(body);
    if (!object) return object.error();
    user_detail detail{.user = user_from(*object), .certificate = text_of(*object, "certificate")};
    if (!usable_id(detail.user.id)) return unexpected_answer("the user in it has no usable id");
    return detail;
}

std::string read_created_id(std::string_view body)
{
    const auto object = parse_object(body);
    if (!object) return {};
    auto id = text_of(*object, "id");
    return usable_id(id) ? id : std::string();
}

std::string instance_body(policy::variant variant, const policy::business_group& group)
{
    json::object body;
    add_group(body, variant, group);
    return json::serialize(body);
}

std::string user_body(policy::variant variant, const policy::submission& submission,
                      const policy::business_group& group, std::string_view csr)
{
    json::object body;
    add_group(body, variant, group);
    body["consumerGroup"] = submission.consumer_group;
    body["contact"] = json::object{{"email", submission.contact}};
    body["csr"] = json::string_view(csr.data(), csr.size());
    body["description"] = submission.description;
    return json::serialize(body);
}

}  // namespace platform
