#include "agent/platform/exposure_client.hpp"

#include "agent/platform/address.hpp"
#include "agent/platform/exposure_json.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/paging.hpp"
#include "agent/platform/status.hpp"

#include <initializer_list>
#include <stdexcept>

namespace platform {
namespace {

// {base_url}/api/v1/tenants/{tenant}/instances[/...]. An empty id would name the collection: a bug of ours.
std::string url_of(const exposure_address& exposure, std::initializer_list<std::string_view> segments)
{
    std::string url = exposure.base_url + "/api/v1/tenants/" + escaped(exposure.tenant) + "/instances";
    for (const auto segment : segments) {
        if (segment.empty()) throw std::logic_error("an empty id in a path of exposure " + exposure.name);
        url += "/" + escaped(segment);
    }
    return url;
}

std::string about(const exposure_address& exposure, std::string_view what)
{
    return "exposure " + exposure.name + ": " + std::string(what);
}

}  // namespace

io::task<std::vector<policy::remote_instance>> exposure_client::list_instances(exposure_address exposure)
{
    const api_call call{.what = about(exposure, "list instances"),
                        .operation = "list_instances",
                        .method = "GET",
                        .url = url_of(exposure, {})};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto instances = read_instances(answer->body);
    if (!instances) co_return unbelievable(call, instances.error());
    co_return std::move(*instances);
}

io::task<std::string> exposure_client::create_instance(exposure_address exposure,
                                                       policy::business_group group)
{
    const api_call call{.what = about(exposure, "create the instance"),
                        .operation = "create_instance",
                        .method = "POST",
                        .url = url_of(exposure, {}),
                        .body = instance_body(exposure.variant, group)};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    co_return read_created_id(answer->body);
}

io::task<user_list> exposure_client::list_users(exposure_address exposure, std::string instance_id)
{
    const api_call call{.what = about(exposure, "list users"),
                        .operation = "list_users",
                        .method = "GET",
                        .url = url_of(exposure, {instance_id, "users"})};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto users = read_users(answer->body);
    if (!users) co_return unbelievable(call, users.error());
    users->cut_off = users->cut_off || names_next_page(header(*answer, "link"));
    co_return std::move(*users);
}

io::task<std::string> exposure_client::create_user(exposure_address exposure, std::string instance_id,
                                                   policy::submission submission,
                                                   policy::business_group group, std::string csr)
{
    const api_call call{.what = about(exposure, "create user " + submission.common_name),
                        .operation = "create_user",
                        .method = "POST",
                        .url = url_of(exposure, {instance_id, "users"}),
                        .body = user_body(exposure.variant, submission, group, csr)};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    co_return read_created_id(answer->body);
}

io::task<user_detail> exposure_client::read_user(exposure_address exposure, std::string instance_id,
                                                 std::string user_id)
{
    const api_call call{.what = about(exposure, "read user " + user_id),
                        .operation = "read_user",
                        .method = "GET",
                        .url = url_of(exposure, {instance_id, "users", user_id})};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto detail = platform::read_user(answer->body);
    if (!detail) co_return unbelievable(call, detail.error());
    if (detail->user.id != user_id) co_return unbelievable(call, unexpected_answer("it is another user's"));
    co_return std::move(*detail);
}

io::task<void> exposure_client::delete_user(exposure_address exposure, std::string instance_id,
                                            std::string user_id)
{
    const api_call call{.what = about(exposure, "delete user " + user_id),
                        .operation = "delete_user",
                        .method = "DELETE",
                        .url = url_of(exposure, {instance_id, "users", user_id})};
    const auto answer = co_await channel_.send(call);
    if (!answer && answer.error().code != policy::errc::not_found) co_return answer.error();
    co_return policy::result<void>();
}

}  // namespace platform
