#include "exposure.hpp"

#include "exposure_view.hpp"
#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace simulator {

namespace json = boost::json;

namespace {

// Thrown to end the call early with this response.
struct refusal {
    response answer;
};

json::object read_body(const request& incoming, journal_record& record)
{
    if (!incoming.field("content-type").starts_with("application/json"))
        record.violations.emplace_back("Content-Type is not application/json");
    boost::system::error_code error;
    auto body = json::parse(incoming.body, error);
    if (error || !body.is_object()) throw bad_request{"the body is not a JSON object"};
    record.body = body;
    return std::move(body.as_object());
}

std::string text_member(const json::object& body, std::string_view key)
{
    const auto* value = body.if_contains(key);
    if (value == nullptr || value->is_null()) return {};
    if (!value->is_string()) throw bad_request{std::string{key} + " must be a string"};
    return std::string{std::string_view{value->as_string()}};
}

std::string required_member(const json::object& body, std::string_view key)
{
    auto text = text_member(body, key);
    if (text.empty()) throw bad_request{std::string{key} + " is required"};
    return text;
}

std::string contact_of(const json::object& body)
{
    const auto* contact = body.if_contains("contact");
    auto email = contact != nullptr && contact->is_object() ? text_member(contact->as_object(), "email")
                                                            : text_member(body, "contact.email");
    if (email.find('@') == std::string::npos)
        throw bad_request{"contact.email is required, and must be an address"};
    return email;
}

// Section 4.4 shows one body for both variants, section 2.3 has other field names for health: both forms are
// accepted unless the behaviour requires one. Only log and lifecycle have no spaces at all.
std::pair<json::value, json::value> group_of(const json::object& body, const variant& service,
                                             const exposure_behaviour& rules, journal_record& record)
{
    const auto member = [&](std::string_view key) {
        const auto* value = body.if_contains(key);
        return value == nullptr ? json::value{} : *value;
    };
    const bool spaces = body.contains("spaceID") || body.contains("spaceName");
    const bool groups = body.contains("businessGroupId") || body.contains("businessGroupName");
    if (spaces && !service.spaces)
        record.violations.emplace_back("the group has the names of another variant");
    if (rules.group_in_body == "business-group" && !groups)
        throw bad_request{"businessGroupName is required"};
    if (rules.group_in_body == "space" && !spaces) throw bad_request{"spaceName is required"};
    const auto id = member(spaces ? "spaceID" : "businessGroupId");
    if (rules.group_id_required && id.is_null())
        throw bad_request{std::string{spaces ? "spaceID" : "businessGroupId"} + " is required"};
    return {id, member(spaces ? "spaceName" : "businessGroupName")};
}

std::string cut(const std::string& text, std::int64_t limit)
{
    return limit > 0 && std::ssize(text) > limit ? text.substr(0, static_cast<std::size_t>(limit)) : text;
}

std::string name_prefix(const variant& service, const std::string& tenant)
{
    return std::string{service.name_prefix} + "-" + tenant + "-";
}

}  // namespace

response exposure_service::handle(const route& to, const request& incoming, const std::string& person,
                                  journal_record& record)
try {
    const auto& tenants = document_.get().tenants;
    if (!tenants.empty() && std::ranges::find(tenants, to.tenant) == tenants.end())
        return problem(403, "no access to the tenant " + to.tenant);

    if (to.operation == "list_instances") return list_instances(to);
    if (to.operation == "create_instance") return create_instance(to, incoming, record);
    if (to.operation == "get_instance") return json_response(200, view_of(expect_instance(to), rules()));
    if (to.operation == "list_users") return list_users(to);
    if (to.operation == "create_user") return create_user(to, incoming, person, record);
    if (to.operation == "get_user")
        return json_response(200, full_view_of(expect_user(to), rules(), authority_));
    return delete_user(to);
} catch (refusal& early) {
    return std::move(early.answer);
}

instance* exposure_service::find_instance(const variant& service, const std::string& tenant)
{
    const auto found = std::ranges::find_if(
        instances_, [&](const instance& each) { return each.service == &service && each.tenant == tenant; });
    return found == instances_.end() ? nullptr : &*found;
}

instance& exposure_service::expect_instance(const route& to)
{
    const auto found = std::ranges::find(instances_, to.instance, &instance::id);
    if (found == instances_.end() || found->service != to.service || found->tenant != to.tenant)
        throw refusal{problem(404, "there is no such instance")};
    return *found;
}

user& exposure_service::expect_user(const route& to)
{
    const auto& home = expect_instance(to);
    const auto found = std::ranges::find(users_, to.user, &user::id);
    if (found == users_.end() || found->instance != home.id)
        throw refusal{problem(404, "there is no such user")};
    return *found;
}

instance& exposure_service::add_instance(const variant& service, const std::string& tenant)
{
    return instances_.emplace_back(instance{.id = random_uuid(),
                                            .service = &service,
                                            .tenant = tenant,
                                            .name = std::string{service.name_prefix} + "-" + tenant,
                                            .group_name = json::value(tenant),
                                            .created_ms = now_ms(),
                                            .ready_delay_ms = rules().instance_ready_delay_ms});
}

response exposure_service::created(const std::string& id, const std::string& name) const
{
    json::object body{{"id", id}, {"name", name}};
    if (!rules().id_in_answer) body.erase("id");
    return json_response(static_cast<int>(rules().create_status), body);
}

response exposure_service::create_instance(const route& to, const request& incoming, journal_record& record)
{
    const auto body = read_body(incoming, record);
    if (find_instance(*to.service, to.tenant) != nullptr)
        return problem(409, "the tenant has an instance already");
    const auto [group_id, group_name] = group_of(body, *to.service, rules(), record);
    auto& home = add_instance(*to.service, to.tenant);
    home.group_id = group_id;
    home.group_name = group_name;
    return created(home.id, home.name);
}

response exposure_service::list_instances(const route& to) const
{
    json::array items;
    for (const auto& each : instances_) {
        if (each.service == to.service && each.tenant == to.tenant) items.push_back(view_of(each, rules()));
    }
    if (items.empty() && rules().empty_list != "items") return empty_list();
    return json_response(200, json::object{{"items", std::move(items)}});
}

response exposure_service::empty_list() const
{
    if (rules().empty_list == "null") return json_response(200, json::object{{"items", nullptr}});
    return json_response(200, json::object{});
}

response exposure_service::list_users(const route& to)
{
    const auto& home = expect_instance(to);
    if (rules().list == "html") return html_response(200, "Sign in");
    // Serialized item by item: a single document with a thousand users takes several times as long.
    std::string body = R"({"items":[)";
    std::int64_t count = 0;
    const auto now = now_ms();
    for (const auto& each : users_) {
        if (each.instance != home.id || now < each.created_ms + each.list_lag_ms) continue;
        if (rules().list == "empty" || (rules().list == "cut" && count == rules().list_limit)) break;
        if (count++ != 0) body += ',';
        body += json::serialize(view_of(each, rules()));
    }
    if (count == 0 && rules().empty_list != "items") return empty_list();
    body += ']';
    for (const auto& [key, value] : rules().list_fields)
        body.append(",").append(json::serialize(json::value(key))).append(":").append(json::serialize(value));
    body += '}';
    return {.status = 200, .fields = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

response exposure_service::create_user(const route& to, const request& incoming, const std::string& person,
                                       journal_record& record)
{
    const auto& home = expect_instance(to);
    const auto body = read_body(incoming, record);
    const auto group = required_member(body, "consumerGroup");
    const auto email = contact_of(body);
    const auto posted = required_member(body, "csr");
    const auto description = text_member(body, "description");
    auto csr = read_signing_request(posted, name_prefix(*to.service, to.tenant));
    if (rules().csr_encoding != "any" && rules().csr_encoding != csr.encoding)
        return problem(400, "csr: expected base64 of " + rules().csr_encoding);
    record.violations.insert(record.violations.end(), csr.oddities.begin(), csr.oddities.end());
    if (status_of(home, rules()) != "READY") return problem(409, "the instance is not ready");
    for (const auto& each : users_) {
        if (rules().unique_common_names && each.common_name == csr.common_name)
            return problem(409, "a user with the common name " + csr.common_name + " exists");
        if (rules().exclusive_consumer_group && each.instance == home.id && each.consumer_group == group)
            return problem(409, "the consumer group " + group + " has a user already");
    }

    auto made = make_user(home, std::move(csr));
    std::tie(made.group_id, made.group_name) = group_of(body, *to.service, rules(), record);
    made.consumer_group = group;
    made.email = email;
    made.csr = posted;
    made.description = cut(description, rules().description_limit);
    made.created_by = person;
    for (std::int64_t i = 0; i < rules().surplus_users; ++i) {
        auto surplus = made;
        surplus.id = random_uuid();
        users_.push_back(std::move(surplus));
    }
    auto answer = created(made.id, made.name);
    users_.push_back(std::move(made));
    return answer;
}

response exposure_service::delete_user(const route& to)
{
    const auto& gone = expect_user(to);
    deleted_.push_back(json::object{{"id", gone.id},
                                    {"common_name", gone.common_name},
                                    {"description", gone.description},
                                    {"at_ms", now_ms()},
                                    {"by", "api"}});
    users_.erase(users_.begin() + (&gone - users_.data()));
    return {.status = static_cast<int>(rules().delete_status)};
}

user exposure_service::make_user(const instance& home, signing_request csr) const
{
    user made{.id = random_uuid(),
              .instance = home.id,
              .service = home.service,
              .tenant = home.tenant,
              .name = csr.common_name,
              .group_id = home.group_id,
              .group_name = home.group_name,
              .created_ms = now_ms(),
              .ready_delay_ms = rules().ready_delay_ms,
              .list_lag_ms = rules().list_lag_ms,
              .common_name = csr.common_name,
              .public_key_sha256 = csr.public_key_sha256};
    certify(made, csr.public_key.get(), rules().certificate);
    return made;
}

void exposure_service::certify(user& owner, EVP_PKEY* key, const certificate_behaviour& rule) const
{
    const auto stranger = rule.key == "other" ? openssl::make_p256_key() : nullptr;
    const auto signed_certificate = sign({.common_name = owner.common_name,
                                          .not_before_offset_s = rule.not_before_offset_s,
                                          .not_after_offset_s = rule.lifetime_s,
                                          .usage = rule.usage == "client"   ? "clientAuth"
                                                   : rule.usage == "server" ? "serverAuth"
                                                   : rule.usage == "both"   ? "clientAuth,serverAuth"
                                                                            : "",
                                          .alt_names = ""},
                                         stranger ? stranger.get() : key, authority_.issuer);
    owner.certificate_der = openssl::to_der(signed_certificate.get());
    owner.expires_ms = expires_ms(*signed_certificate);
}

user& exposure_service::put_user(const json::object& wanted, const std::string& person)
{
    const auto& service = find_variant(required_member(wanted, "variant"));
    const auto tenant = required_member(wanted, "tenant");
    auto* home = find_instance(service, tenant);
    if (home == nullptr) home = &add_instance(service, tenant);

    signing_request csr;
    if (const auto posted = text_member(wanted, "csr"); !posted.empty()) {
        csr = read_signing_request(posted, name_prefix(service, tenant));
    } else {
        csr.public_key = openssl::make_p256_key();
        csr.public_key_sha256 = sha256_hex(openssl::public_key_der(csr.public_key.get()));
        csr.common_name = text_member(wanted, "common_name");
        if (csr.common_name.empty())
            csr.common_name = name_prefix(service, tenant) + "portal-" + random_hex(4);
    }
    auto made = make_user(*home, std::move(csr));
    made.created_by = person;
    made.consumer_group = "portal";
    made.email = "portal@example.com";
    made.csr = text_member(wanted, "csr");
    made.list_lag_ms = 0;
    made.status = "READY";
    users_.push_back(std::move(made));
    auto rest = wanted;
    for (const auto* key : {"variant", "tenant", "csr", "common_name", "count"})
        rest.erase(key);
    change_user(users_.back().id, rest);
    return users_.back();
}

instance& exposure_service::put_instance(const json::object& wanted)
{
    const auto& service = find_variant(required_member(wanted, "variant"));
    const auto tenant = required_member(wanted, "tenant");
    auto& made = add_instance(service, tenant);
    made.status = "READY";
    if (const auto status = text_member(wanted, "status"); !status.empty()) made.status = status;
    if (const auto* id = wanted.if_contains("group_id")) made.group_id = *id;
    if (const auto* name = wanted.if_contains("group_name")) made.group_name = *name;
    return made;
}

}  // namespace simulator
