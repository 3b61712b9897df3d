#include "agent/platform/exposure_client.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/response.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>

namespace platform {

namespace json = boost::json;

namespace {

// ---- JSON to values

constexpr std::size_t id_length = 200;

// Ids become path segments, so one that could name another path is unusable.
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

// Which field names the platform uses for the group, even if their values are null.
policy::group_fields fields_of(const json::object& object)
{
    const auto any = [&](std::initializer_list<std::string_view> keys) {
        return std::ranges::any_of(keys, [&](std::string_view key) {
            return object.contains(json::string_view(key.data(), key.size()));
        });
    };
    const bool business_group = any({"businessGroupId", "businessGroupName"});
    const bool space = any({"spaceID", "spaceId", "space", "spaceName"});
    if (business_group == space) return policy::group_fields::auto_;
    return space ? policy::group_fields::space : policy::group_fields::business_group;
}

policy::remote_status read_status(std::string_view text)
{
    auto word = boost::algorithm::to_upper_copy(std::string(text));
    boost::algorithm::trim(word);
    if (word == "READY") return policy::remote_status::ready;
    const bool failed = word.find("FAIL") != std::string::npos || word.find("ERROR") != std::string::npos;
    return failed ? policy::remote_status::failed : policy::remote_status::in_progress;
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

// Some platforms write "not set" as a date in 1970 or earlier.
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
                                     .group = read_group(object),
                                     .fields = fields_of(object)};
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
                             .group = read_group(object),
                             .created_by = text_of(object, "createdBy"),
                             .creation_date = read_date(object, "creationDate").when,
                             .expiration_date = expiration.when,
                             .expiration_unreadable = expiration.unreadable,
                             .description = description,
                             .mark = policy::find_marker(description)};
    user.status = read_status(user.status_text);
    return user;
}

// ---- requests

void add_group(json::object& body, policy::group_fields fields, const policy::business_group& group)
{
    const bool space = fields == policy::group_fields::space;
    if (!group.id.empty()) body[space ? "spaceID" : "businessGroupId"] = group.id;
    body[space ? "spaceName" : "businessGroupName"] = group.name;
}

// {base_url}/api/v1/tenants/{tenant}/instances[/...]. An empty id would address the collection: our own bug.
std::string url_of(const exposure_address& exposure, std::initializer_list<std::string_view> segments)
{
    std::string url = exposure.base_url + "/api/v1/tenants/" + io::escaped(exposure.tenant) + "/instances";
    for (const auto segment : segments) {
        if (segment.empty()) throw std::logic_error("an empty id in a path of exposure " + exposure.name);
        url += "/" + io::escaped(segment);
    }
    return url;
}

std::string about(const exposure_address& exposure, std::string_view what)
{
    return "exposure " + exposure.name + ": " + std::string(what);
}

bool mentions_group(std::string_view sentence)
{
    std::string lower(sentence);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower.find("group") != std::string::npos || lower.find("space") != std::string::npos;
}

// Says where to find the id that the platform asks for.
policy::failure with_group_advice(policy::failure failed, const exposure_address& exposure)
{
    failed.context += "; if it asks for the id of a business group, set business_group: {id, name} for " +
                      exposure.name + " (`exposure-agent users " + exposure.name +
                      "` lists the ids in use; the portal shows the tenant's own)";
    return failed;
}

}  // namespace

// ---- readers

policy::result<std::vector<policy::remote_instance>> read_instances(std::string_view body)
{
    std::vector<policy::remote_instance> instances;
    list_reader list([&](const json::object& entry) -> policy::result<void> {
        instances.push_back(instance_from(entry));
        if (usable_id(instances.back().id)) return {};
        return unexpected_answer("an instance in it has no usable id");
    });
    if (auto read = list.write(body); !read) return read.error();
    if (auto read = list.finish(); !read) return read.error();
    return instances;
}

policy::result<policy::remote_instance> read_instance(std::string_view body)
{
    const auto object = parse_object(body);
    if (!object) return object.error();
    auto instance = instance_from(*object);
    if (!usable_id(instance.id)) return unexpected_answer("the instance in it has no usable id");
    return instance;
}

struct user_list_reader::state {
    explicit state(exposure_api::user_handler h)
        : each(std::move(h)), list([this](const json::object& entry) {
              auto user = user_from(entry);
              if (usable_id(user.id))
                  each(std::move(user));
              else
                  doubtful = true;
              return policy::result<void>();
          })
    {
    }

    exposure_api::user_handler each;
    bool doubtful = false;
    list_reader list;
};

user_list_reader::user_list_reader(exposure_api::user_handler each)
    : state_(std::make_unique<state>(std::move(each)))
{
}

user_list_reader::~user_list_reader() = default;

policy::result<void> user_list_reader::write(std::string_view piece)
{
    return state_->list.write(piece);
}

policy::result<list_end> user_list_reader::finish()
{
    const auto end = state_->list.finish();
    if (!end) return end.error();
    return list_end{.users = end->elements, .cut_off = end->shows_more || state_->doubtful};
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

bool names_next_page(std::string_view link_header)
{
    for (auto at = link_header.find("rel="); at != std::string_view::npos;
         at = link_header.find("rel=", at + 1)) {
        auto relation = link_header.substr(at + 4);
        if (relation.starts_with('"')) {
            relation.remove_prefix(1);
            relation = relation.substr(0, relation.find('"'));
        } else {
            relation = relation.substr(0, relation.find_first_of(",;"));
        }
        if (relation.find("next") != std::string_view::npos) return true;
    }
    return false;
}

policy::group_fields own_fields(policy::variant variant) noexcept
{
    return variant == policy::variant::health ? policy::group_fields::space
                                              : policy::group_fields::business_group;
}

std::string instance_body(policy::group_fields fields, const policy::business_group& group)
{
    json::object body;
    add_group(body, fields, group);
    return json::serialize(body);
}

std::string user_body(policy::group_fields fields, const policy::submission& submission,
                      const policy::business_group& group, std::string_view csr)
{
    json::object body;
    add_group(body, fields, group);
    body["consumerGroup"] = submission.consumer_group;
    body["contact"] = json::object{{"email", submission.contact}};
    body["csr"] = json::string_view(csr.data(), csr.size());
    body["description"] = submission.description;
    return json::serialize(body);
}

// ---- calls

io::task<std::vector<policy::remote_instance>> exposure_client::list_instances(exposure_address exposure)
{
    const api_call call{.what = about(exposure, "list instances"),
                        .operation = "list_instances",
                        .exposure = exposure.name,
                        .method = "GET",
                        .url = url_of(exposure, {})};
    const auto answer = co_await channel_.send(call);
    if (!answer) {
        auto failed = answer.error();
        if (failed.code == policy::errc::not_found)
            failed.context += "; check base_url (" + exposure.base_url + ") and tenant";
        co_return failed;
    }
    auto instances = read_instances(answer->body);
    if (!instances) co_return unbelievable(call, instances.error());
    co_return std::move(*instances);
}

io::task<policy::remote_instance> exposure_client::read_instance(exposure_address exposure,
                                                                 std::string instance_id)
{
    const api_call call{.what = about(exposure, "read instance " + instance_id),
                        .operation = "read_instance",
                        .exposure = exposure.name,
                        .method = "GET",
                        .url = url_of(exposure, {instance_id})};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto instance = platform::read_instance(answer->body);
    if (!instance) co_return unbelievable(call, instance.error());
    if (instance->id != instance_id)
        co_return unbelievable(call, unexpected_answer("it describes a different instance"));
    co_return std::move(*instance);
}

io::task<created> exposure_client::create(api_call call, exposure_address exposure, group_choice choice,
                                          std::function<std::string(policy::group_fields)> body)
{
    auto fields = choice.fields == policy::group_fields::auto_ ? own_fields(exposure.variant) : choice.fields;
    call.body = body(fields);
    unsigned status = 0;
    auto answer = co_await channel_.send(call, &status);
    if (!answer && !choice.fixed && (status == 400 || status == 422)) {
        const auto other = fields == policy::group_fields::space ? policy::group_fields::business_group
                                                                 : policy::group_fields::space;
        call.body = body(other);
        auto second = co_await channel_.send(call, &status);
        // refused again: report the first refusal, which is about the names that the reference documents
        if (second || !(status == 400 || status == 422)) {
            answer = std::move(second);
            fields = other;
        }
    }
    if (!answer && (status == 400 || status == 422) && choice.group.id.empty() &&
        mentions_group(answer.error().context))
        co_return with_group_advice(answer.error(), exposure);
    if (!answer) co_return answer.error();
    co_return created{.id = read_created_id(answer->body), .fields = fields};
}

io::task<created> exposure_client::create_instance(exposure_address exposure, group_choice choice)
{
    api_call call{.what = about(exposure, "create the instance"),
                  .operation = "create_instance",
                  .exposure = exposure.name,
                  .method = "POST",
                  .url = url_of(exposure, {})};
    std::function<std::string(policy::group_fields)> body = [group = choice.group](auto fields) {
        return instance_body(fields, group);
    };
    co_return co_await create(std::move(call), std::move(exposure), std::move(choice), std::move(body));
}

io::task<list_end> exposure_client::list_users(exposure_address exposure, std::string instance_id,
                                               user_handler each)
{
    user_list_reader list(std::move(each));
    std::optional<policy::failure> refused;
    const api_call call{.what = about(exposure, "list users"),
                        .operation = "list_users",
                        .exposure = exposure.name,
                        .method = "GET",
                        .url = url_of(exposure, {instance_id, "users"}),
                        .consume =
                            [&](std::string_view piece) {
                                auto read = list.write(piece);
                                if (!read) refused = read.error();
                                return read;
                            },
                        .body_limit = policy::limits::list_bytes};
    const auto answer = co_await channel_.send(call);
    if (refused) co_return unbelievable(call, *refused);
    if (!answer) co_return answer.error();
    auto end = list.finish();
    if (!end) co_return unbelievable(call, end.error());
    end->cut_off = end->cut_off || names_next_page(header(*answer, "link"));
    co_return *end;
}

io::task<created> exposure_client::create_user(exposure_address exposure, std::string instance_id,
                                               policy::submission submission, group_choice choice,
                                               std::string csr)
{
    api_call call{.what = about(exposure, "create user " + submission.common_name),
                  .operation = "create_user",
                  .exposure = exposure.name,
                  .method = "POST",
                  .url = url_of(exposure, {instance_id, "users"})};
    std::function<std::string(policy::group_fields)> body = [submission, group = choice.group,
                                                             csr](auto fields) {
        return user_body(fields, submission, group, csr);
    };
    co_return co_await create(std::move(call), std::move(exposure), std::move(choice), std::move(body));
}

io::task<user_detail> exposure_client::read_user(exposure_address exposure, std::string instance_id,
                                                 std::string user_id)
{
    const api_call call{.what = about(exposure, "read user " + user_id),
                        .operation = "read_user",
                        .exposure = exposure.name,
                        .method = "GET",
                        .url = url_of(exposure, {instance_id, "users", user_id})};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto detail = platform::read_user(answer->body);
    if (!detail) co_return unbelievable(call, detail.error());
    if (detail->user.id != user_id)
        co_return unbelievable(call, unexpected_answer("it describes a different user"));
    co_return std::move(*detail);
}

io::task<void> exposure_client::delete_user(exposure_address exposure, std::string instance_id,
                                            std::string user_id)
{
    const api_call call{.what = about(exposure, "delete user " + user_id),
                        .operation = "delete_user",
                        .exposure = exposure.name,
                        .method = "DELETE",
                        .url = url_of(exposure, {instance_id, "users", user_id})};
    const auto answer = co_await channel_.send(call);
    if (!answer && answer.error().code != policy::errc::not_found) co_return answer.error();
    co_return policy::result<void>();
}

std::optional<policy::duration> exposure_client::clock_ahead(const exposure_address& exposure) const
{
    return channel_.clock_ahead(io::host_of(exposure.base_url));
}

}  // namespace platform
