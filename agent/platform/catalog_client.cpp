#include "agent/platform/catalog_client.hpp"

#include "agent/platform/address.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/status.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>

namespace platform {
namespace {

using policy::errc;

constexpr const char* consumer = "/catalog-service/api/consumer";

// A path of literal and escaped segments; empty when one of the ids is.
std::string path_of(const std::string& head, std::string_view id, const std::string& middle,
                    std::string_view second, const std::string& tail)
{
    if (id.empty() || second.empty()) return {};
    return consumer + head + escaped(id) + middle + escaped(second) + tail;
}

std::string item_path(std::string_view item, const std::string& what, std::string_view business_group)
{
    return path_of("/entitledCatalogItems/", item, what + "?businessGroupId=", business_group, "");
}

std::string action_path(std::string_view resource, std::string_view action, const std::string& what)
{
    return path_of("/resources/", resource, "/actions/", action, "/forms/request" + what);
}

policy::failure empty_id(const std::string& what)
{
    return {.code = errc::usage, .context = what + ": an id is empty", .kind = policy::retry::never};
}

// Whether the submission was processed is open.
bool outcome_unknown(const policy::failure& failure)
{
    return failure.code == errc::no_answer || failure.code == errc::bad_answer ||
           failure.code == errc::unavailable;
}

}  // namespace

io::task<std::string> catalog_client::get_object(api_call call)
{
    auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    if (const auto object = parse_object(answer->body); !object) co_return unbelievable(call, object.error());
    co_return std::move(answer->body);
}

io::task<std::string> catalog_client::request_template(std::string item, std::string business_group)
{
    const std::string what = "catalog item " + item + ": get the request template";
    const auto path = item_path(item, "/requests/customTemplate", business_group);
    if (path.empty()) co_return empty_id(what);
    const api_call call{
        .what = what, .operation = "catalog_template", .method = "GET", .url = base_url_ + path};
    co_return co_await get_object(call);
}

io::task<std::string> catalog_client::submit(std::string item, std::string business_group, std::string body)
{
    const std::string what = "catalog item " + item + ": submit the request";
    const auto path = item_path(item, "/requests", business_group);
    if (path.empty()) co_return empty_id(what);
    const auto typed = names_type(body);
    if (!typed) co_return policy::with_context(what, typed.error());
    if (!*typed) {
        const auto model = co_await request_template(item, business_group);
        if (!model) co_return model.error();
        auto whole = with_type_of(*model, body);
        if (!whole) co_return policy::with_context(what, whole.error());
        body = std::move(*whole);
    }
    const api_call call{.what = what,
                        .operation = "catalog_request",
                        .method = "POST",
                        .url = base_url_ + path,
                        .body = std::move(body)};
    auto answer = co_await channel_.send(call);
    if (answer) {
        auto id = read_submitted_id(answer->body, header(*answer, "location"));
        const auto start = answer->body.find_first_not_of(" \t\r\n");
        const bool a_page = start != std::string::npos && answer->body[start] == '<';
        if (!id.empty() || !a_page) co_return id;
        answer = unbelievable(call, unexpected_answer("it is an HTML page"));
    }
    auto failure = answer.error();
    if (outcome_unknown(failure)) {
        failure.code = errc::no_answer;
        failure.kind = policy::retry::never;
        failure.context +=
            ". Whether the request was started is not known, and it is not sent again: look for it "
            "among the requests of catalog item " +
            item + " in the portal, and follow it with `exposure-agent catalog show REQUEST_ID`";
    }
    co_return failure;
}

io::task<request_state> catalog_client::show(std::string request_id)
{
    const std::string what = "catalog request " + request_id;
    if (request_id.empty()) co_return empty_id(what);
    const api_call call{.what = what,
                        .operation = "catalog_show",
                        .method = "GET",
                        .url = base_url_ + consumer + "/requests/" + escaped(request_id)};
    const auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto state = read_request_state(answer->body);
    if (!state) co_return unbelievable(call, state.error());
    if (state->id.empty()) state->id = request_id;
    co_return std::move(*state);
}

io::task<std::string> catalog_client::action_form(std::string resource, std::string action)
{
    const std::string what = "action " + action + " of resource " + resource + ": get the form";
    const auto path = action_path(resource, action, "");
    if (path.empty()) co_return empty_id(what);
    const api_call call{.what = what, .operation = "action_form", .method = "GET", .url = base_url_ + path};
    co_return co_await get_object(call);
}

io::task<element_values> catalog_client::action_values(std::string resource, std::string action,
                                                       std::vector<std::string> elements)
{
    const std::string what = "action " + action + " of resource " + resource + ": read the values";
    const auto path = action_path(resource, action, "/update");
    if (path.empty() || std::ranges::count(elements, "") > 0) co_return empty_id(what);
    const api_call call{.what = what,
                        .operation = "action_values",
                        .method = "POST",
                        .url = base_url_ + path,
                        .body = elements_body(elements)};
    auto answer = co_await channel_.send(call);
    if (!answer) co_return answer.error();
    auto values = extract_values(answer->body, elements);
    crypto::wipe(answer->body);
    if (!values) co_return unbelievable(call, values.error());
    co_return std::move(*values);
}

}  // namespace platform
