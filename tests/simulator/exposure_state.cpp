#include "exposure.hpp"
#include "exposure_view.hpp"
#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <map>

// The exposure services as seen and changed by the control API and the state file.

namespace simulator {

namespace json = boost::json;

namespace {

std::string text_of(const json::value& value)
{
    return json::value_to<std::string>(value);
}

// Empty: matches all. Otherwise each of "id", "ids", "variant", "tenant", "description_contains" must match.
template <class T>
bool fits(const T& each, const json::object& filter)
{
    for (const auto& [name, wanted] : filter) {
        const std::string_view key = name;
        if (key == "id" && text_of(wanted) != each.id) return false;
        if (key == "ids") {
            const auto ids = json::value_to<std::vector<std::string>>(wanted);
            if (std::ranges::find(ids, each.id) == ids.end()) return false;
        }
        if (key == "variant" && &find_variant(text_of(wanted)) != each.service) return false;
        if (key == "tenant" && text_of(wanted) != each.tenant) return false;
        if constexpr (requires { each.description; }) {
            if (key == "description_contains" && each.description.find(text_of(wanted)) == std::string::npos)
                return false;
        }
    }
    return true;
}

json::object save_instance(const instance& from)
{
    return {
        {"id", from.id},         {"variant", from.service->name}, {"tenant", from.tenant},
        {"name", from.name},     {"group_id", from.group_id},     {"group_name", from.group_name},
        {"status", from.status}, {"created_ms", from.created_ms}, {"ready_delay_ms", from.ready_delay_ms}};
}

json::object save_user(const user& from)
{
    return {{"id", from.id},
            {"instance", from.instance},
            {"variant", from.service->name},
            {"tenant", from.tenant},
            {"name", from.name},
            {"description", from.description},
            {"consumer_group", from.consumer_group},
            {"email", from.email},
            {"group_id", from.group_id},
            {"group_name", from.group_name},
            {"created_by", from.created_by},
            {"status", from.status},
            {"created_ms", from.created_ms},
            {"ready_delay_ms", from.ready_delay_ms},
            {"list_lag_ms", from.list_lag_ms},
            {"expires_ms", from.expires_ms},
            {"csr", from.csr},
            {"common_name", from.common_name},
            {"public_key_sha256", from.public_key_sha256},
            {"certificate_der", base64_encode(from.certificate_der)},
            {"fields", from.fields}};
}

instance load_instance(const json::object& saved)
{
    return {.id = text_of(saved.at("id")),
            .service = &find_variant(text_of(saved.at("variant"))),
            .tenant = text_of(saved.at("tenant")),
            .name = text_of(saved.at("name")),
            .group_id = saved.at("group_id"),
            .group_name = saved.at("group_name"),
            .status = text_of(saved.at("status")),
            .created_ms = saved.at("created_ms").to_number<std::int64_t>(),
            .ready_delay_ms = saved.at("ready_delay_ms").to_number<std::int64_t>()};
}

user load_user(const json::object& saved)
{
    return {.id = text_of(saved.at("id")),
            .instance = text_of(saved.at("instance")),
            .service = &find_variant(text_of(saved.at("variant"))),
            .tenant = text_of(saved.at("tenant")),
            .name = text_of(saved.at("name")),
            .description = text_of(saved.at("description")),
            .consumer_group = text_of(saved.at("consumer_group")),
            .email = text_of(saved.at("email")),
            .group_id = saved.at("group_id"),
            .group_name = saved.at("group_name"),
            .created_by = text_of(saved.at("created_by")),
            .status = text_of(saved.at("status")),
            .created_ms = saved.at("created_ms").to_number<std::int64_t>(),
            .ready_delay_ms = saved.at("ready_delay_ms").to_number<std::int64_t>(),
            .list_lag_ms = saved.at("list_lag_ms").to_number<std::int64_t>(),
            .expires_ms = saved.at("expires_ms").to_number<std::int64_t>(),
            .csr = text_of(saved.at("csr")),
            .common_name = text_of(saved.at("common_name")),
            .public_key_sha256 = text_of(saved.at("public_key_sha256")),
            .certificate_der = base64_decode(text_of(saved.at("certificate_der"))).value_or(""),
            .fields = saved.at("fields").as_object()};
}

}  // namespace

void exposure_service::change_user(const std::string& id, const json::object& change)
{
    const auto found = std::ranges::find(users_, id, &user::id);
    if (found == users_.end()) throw bad_request{"there is no user " + id};
    static const std::map<std::string_view, std::string user::*> texts{
        {"name", &user::name},
        {"description", &user::description},
        {"consumer_group", &user::consumer_group},
        {"email", &user::email},
        {"created_by", &user::created_by},
        {"status", &user::status}};
    for (const auto& [key, value] : change) {
        if (const auto text = texts.find(key); text != texts.end())
            (*found).*(text->second) = text_of(value);
        else if (key == "group_id")
            found->group_id = value;
        else if (key == "group_name")
            found->group_name = value;
        else if (key == "fields")
            found->fields = value.as_object();
        else if (key == "lifetime_s")
            reissue(*found, value.to_number<std::int64_t>());
        else
            throw bad_request{"a user has no \"" + std::string{key} + "\""};
    }
}

void exposure_service::reissue(user& target, std::int64_t lifetime_s) const
{
    const auto old = openssl::certificate_from_der(target.certificate_der);
    auto rule = rules().certificate;
    rule.lifetime_s = lifetime_s;
    rule.key = "own";
    certify(target, X509_get0_pubkey(old.get()), rule);
}

std::size_t exposure_service::delete_users(const json::object& filter)
{
    return std::erase_if(users_, [&](const user& each) {
        if (!fits(each, filter)) return false;
        deleted_.push_back(json::object{{"id", each.id},
                                        {"common_name", each.common_name},
                                        {"description", each.description},
                                        {"at_ms", now_ms()},
                                        {"by", "control"}});
        return true;
    });
}

std::size_t exposure_service::delete_instances(const json::object& filter)
{
    return std::erase_if(instances_, [&](const instance& each) {
        if (!fits(each, filter)) return false;
        std::erase_if(users_, [&](const user& one) { return one.instance == each.id; });
        return true;
    });
}

void exposure_service::forget_everything()
{
    instances_.clear();
    users_.clear();
    deleted_.clear();
}

json::object exposure_service::describe() const
{
    json::array instances;
    for (const auto& each : instances_) {
        auto view = save_instance(each);
        view["status"] = status_of(each, rules());
        instances.push_back(std::move(view));
    }
    json::array users;
    for (const auto& each : users_) {
        auto view = save_user(each);
        view["status"] = status_of(each, rules());
        view["certificate_pem"] = openssl::to_pem(openssl::certificate_from_der(each.certificate_der).get());
        users.push_back(std::move(view));
    }
    return {{"instances", std::move(instances)}, {"users", std::move(users)}, {"deleted_users", deleted_}};
}

json::object exposure_service::save() const
{
    json::array instances;
    for (const auto& each : instances_)
        instances.push_back(save_instance(each));
    json::array users;
    for (const auto& each : users_)
        users.push_back(save_user(each));
    return {{"instances", std::move(instances)}, {"users", std::move(users)}, {"deleted_users", deleted_}};
}

void exposure_service::load(const json::object& saved)
{
    forget_everything();
    for (const auto& each : saved.at("instances").as_array())
        instances_.push_back(load_instance(each.as_object()));
    for (const auto& each : saved.at("users").as_array())
        users_.push_back(load_user(each.as_object()));
    deleted_ = saved.at("deleted_users").as_array();
}

}  // namespace simulator
