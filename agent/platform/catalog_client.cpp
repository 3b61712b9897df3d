#include "agent/platform/catalog_client.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/response.hpp"
#include "policy/words.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace platform {

namespace json = boost::json;

using policy::errc;

// ---- requests and their states

namespace {

std::optional<bool> flag_of(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    if (value != nullptr && value->is_bool()) return value->get_bool();
    const auto text = text_of(object, key);
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
}

// Success or failure by the value of phase or state; none while the request may still change.
std::optional<bool> success_by(std::string_view word)
{
    if (word == "SUCCESSFUL") return true;
    if (word.ends_with("FAILED") || word == "REJECTED" || word == "CANCELLED" || word == "CANCELED")
        return false;
    return std::nullopt;
}

policy::failure wrong_usage(std::string sentence)
{
    return {.code = policy::errc::usage, .context = std::move(sentence), .kind = policy::retry::never};
}

json::value typed(std::string_view text)
{
    boost::system::error_code error;
    auto value = json::parse(json::string_view(text.data(), text.size()), error);
    return error ? json::value(json::string_view(text.data(), text.size())) : value;
}

policy::result<void> assign(json::object& data, const std::string& assignment)
{
    const auto equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
        return wrong_usage("--set: '" + redact(assignment) + "' is not KEY=VALUE");
    const auto key = assignment.substr(0, equals);
    if (data.contains(key)) {
        data[key] = typed(std::string_view(assignment).substr(equals + 1));
        return {};
    }
    std::vector<std::string> known;
    std::string list;
    for (const auto& member : data) {
        known.emplace_back(member.key());
        list += (list.empty() ? "" : ", ") + known.back();
    }
    const auto near = policy::nearest(key, known);
    return wrong_usage("--set: unknown key '" + redact(key) + "'; " +
                       (near.empty() ? "the request has " + redact(list) : "did you mean " + near + "?"));
}

}  // namespace

policy::result<request_state> read_request_state(std::string_view body)
{
    const auto object = parse_object(body);
    if (!object) return object.error();
    const auto phase = text_of(*object, "phase");
    const auto state = text_of(*object, "state");
    const auto final = flag_of(*object, "final");
    if (!final && phase.empty() && state.empty())
        return unexpected_answer("it does not contain the request's state");

    request_state read{.id = text_of(*object, "id"), .text = phase.empty() ? state : phase, .details = {}};
    const auto by_word = success_by(read.text);
    read.finished = final.value_or(by_word.has_value());
    read.succeeded = read.finished && flag_of(*object, "successful").value_or(by_word.value_or(false));
    if (read.text.empty())
        read.text = !read.finished ? "IN_PROGRESS" : read.succeeded ? "SUCCESSFUL" : "FAILED";
    if (const auto* completion = object_of(*object, "requestCompletion"))
        read.details = redact(text_of(*completion, "completionDetails"));
    return read;
}

std::string read_submitted_id(std::string_view body, std::string_view location)
{
    if (const auto object = parse_object(body))
        if (auto id = text_of(*object, "id"); !id.empty()) return id;
    location = location.substr(0, location.find_first_of("?#"));
    while (location.ends_with('/'))
        location.remove_suffix(1);
    const auto slash = location.rfind('/');
    return slash == std::string_view::npos ? std::string() : std::string(location.substr(slash + 1));
}

std::string elements_body(const std::vector<std::string>& elements)
{
    return json::serialize(json::object{{"affectedElements", json::array(elements.begin(), elements.end())}});
}

policy::result<std::string> overlay(std::string_view request_template,
                                    const std::vector<std::string>& assignments)
{
    auto request = parse_object(request_template);
    if (!request) return request.error();
    auto* data = request->if_contains("data");
    if (data == nullptr || !data->is_object()) return unexpected_answer("the template has no data");
    for (const auto& assignment : assignments)
        if (auto done = assign(data->get_object(), assignment); !done) return done.error();
    return json::serialize(*request);
}

policy::result<request_form> form_of(std::string_view body)
{
    const auto request = parse_object(body);
    if (!request) return wrong_usage("not a JSON object (the request with type and data, or its data alone)");
    if (!text_of(*request, "type").empty()) return request_form::complete;
    return object_of(*request, "data") ? request_form::without_type : request_form::bare_data;
}

policy::result<std::string> completed(std::string_view request_template, std::string_view body)
{
    const auto model = parse_object(request_template);
    if (!model) return model.error();
    const auto type = text_of(*model, "type");
    if (type.empty()) return unexpected_answer("the template has no type");
    const auto form = form_of(body);
    if (!form) return form.error();
    auto request = *parse_object(body);
    if (*form == request_form::bare_data) request = json::object{{"data", std::move(request)}};
    request["type"] = type;
    return json::serialize(request);
}

// ---- form values: exactly the extraction rule of platform-api section 2.2

namespace {

const json::array* array_of(const json::object& object, std::string_view key)
{
    const auto* value = object.if_contains(json::string_view(key.data(), key.size()));
    return value == nullptr ? nullptr : value->if_array();
}

// The first entry of the list whose member `key` is the text `wanted`.
const json::object* first_with(const json::array* list, std::string_view key, std::string_view wanted)
{
    if (list == nullptr) return nullptr;
    for (const auto& entry : *list) {
        const auto* object = entry.if_object();
        if (object != nullptr && text_of(*object, key) == wanted) return object;
    }
    return nullptr;
}

struct found_value {
    crypto::secret text;
    std::string type;
    std::string why;  // if not empty, why there is no value (a sentence)
};

found_value no_value(std::string why)
{
    return {.text = {}, .type = {}, .why = std::move(why)};
}

// The type as the platform names it, else the JSON type.
std::string type_of(const json::object& outer, const json::value& value)
{
    if (auto named = text_of(outer, "type"); !named.empty()) return named;
    return value.is_string() ? "string" : value.is_bool() ? "boolean" : "number";
}

found_value value_of(const json::array& updates, const std::string& element)
{
    const auto* update = first_with(&updates, "id", element);
    if (update == nullptr)
        return no_value(
            "element " + element +
            " not found in the action's form. To list its elements, run: exposure-agent action form "
            "RESOURCE ACTION");
    const auto* facet_values = object_of(*update, "facetValues");
    const auto* facets = facet_values == nullptr ? nullptr : array_of(*facet_values, "facets");
    const auto* facet = first_with(facets, "type", "fixedValue");
    if (facet == nullptr)
        return no_value("element " + element + " has no value (no facet of type fixedValue)");
    const auto* outer = object_of(*facet, "value");
    const auto* value = outer == nullptr ? facet->if_contains("value") : outer->if_contains("value");
    if (value == nullptr || value->is_null())
        return no_value("element " + element + " has no value yet (null)");
    if (outer == nullptr || value->is_structured())
        return no_value("the value of element " + element + " is not a string, a number or a boolean");
    if (value->is_bool())
        return {.text = crypto::secret(value->get_bool() ? "true" : "false"),
                .type = type_of(*outer, *value),
                .why = {}};
    return {.text = crypto::secret(text_of(*outer, "value")), .type = type_of(*outer, *value), .why = {}};
}

}  // namespace

policy::result<element_values> extract_values(std::string_view body, const std::vector<std::string>& elements)
{
    wiping_storage memory;
    const auto object = parse_object(body, &memory);
    if (!object) return object.error();
    const auto* updates = array_of(*object, "elementUpdates");
    if (updates == nullptr) return unexpected_answer("it has no elementUpdates list");
    element_values found;
    for (const auto& element : elements) {
        auto value = value_of(*updates, element);
        if (value.why.empty()) {
            found.values[element] = std::move(value.text);
            found.types[element] = std::move(value.type);
        } else {
            found.missing[element] = std::move(value.why);
        }
    }
    return found;
}

// ---- calls

namespace {

constexpr const char* consumer = "/catalog-service/api/consumer";

// A path of literal and escaped segments; empty if one of the ids is empty.
std::string path_of(const std::string& head, std::string_view id, const std::string& middle,
                    std::string_view second, const std::string& tail)
{
    if (id.empty() || second.empty()) return {};
    return consumer + head + io::escaped(id) + middle + io::escaped(second) + tail;
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

// True if the submission may or may not have been processed.
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

io::task<submitted_request> catalog_client::submit(std::string item, std::string business_group,
                                                   std::string body)
{
    const std::string what = "catalog item " + item + ": submit the request";
    const auto path = item_path(item, "/requests", business_group);
    if (path.empty()) co_return empty_id(what);
    const auto form = form_of(body);
    if (!form) co_return policy::with_context(what, form.error());
    if (*form != request_form::complete) {
        const auto model = co_await request_template(item, business_group);
        if (!model) co_return model.error();
        auto whole = completed(*model, body);
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
        submitted_request made{.id = read_submitted_id(answer->body, header(*answer, "location")),
                               .answer = {}};
        if (parse_object(answer->body)) made.answer = std::move(answer->body);
        const auto start = answer->body.find_first_not_of(" \t\r\n");
        const bool a_page = start != std::string::npos && answer->body[start] == '<';
        if (!made.id.empty() || !made.answer.empty() || !a_page) co_return made;
        answer = unbelievable(call, unexpected_answer("it is an HTML page"));
    }
    auto failure = answer.error();
    if (outcome_unknown(failure)) {
        failure.code = errc::no_answer;
        failure.kind = policy::retry::never;
        failure.context +=
            ". The request may have been started; it is not sent again. Look for it among the requests of "
            "catalog item " +
            item + " in the portal, and follow it with: exposure-agent catalog show REQUEST_ID";
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
                        .url = base_url_ + consumer + "/requests/" + io::escaped(request_id)};
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
