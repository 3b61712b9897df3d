#include "agent/platform/catalog_json.hpp"

#include "agent/platform/json.hpp"
#include "agent/platform/shown.hpp"
#include "policy/nearest.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <optional>

namespace platform {

namespace json = boost::json;

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

// What the words of phase and state say: nothing for one that may still change.
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
        return wrong_usage("\"" + shown(assignment) + "\" is no assignment: write KEY=VALUE");
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
    return wrong_usage("the catalog item knows no \"" + shown(key) +
                       "\": " + (near.empty() ? "there are " + shown(list) : "did you mean " + near + "?"));
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
        return unexpected_answer("it says nothing of the request's state");

    request_state read{.id = text_of(*object, "id"), .text = phase.empty() ? state : phase, .details = {}};
    const auto by_word = success_by(read.text);
    read.finished = final.value_or(by_word.has_value());
    read.succeeded = read.finished && flag_of(*object, "successful").value_or(by_word.value_or(false));
    if (read.text.empty())
        read.text = !read.finished ? "IN_PROGRESS" : read.succeeded ? "SUCCESSFUL" : "FAILED";
    if (const auto* completion = object_of(*object, "requestCompletion"))
        read.details = shown(text_of(*completion, "completionDetails"));
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

policy::result<bool> names_type(std::string_view body)
{
    const auto request = parse_object(body);
    if (!request) return wrong_usage("the request is not a JSON object with type and data");
    return !text_of(*request, "type").empty();
}

policy::result<std::string> with_type_of(std::string_view request_template, std::string_view body)
{
    const auto model = parse_object(request_template);
    if (!model) return model.error();
    auto request = parse_object(body);
    if (!request) return wrong_usage("the request is not a JSON object with type and data");
    const auto type = text_of(*model, "type");
    if (type.empty()) return unexpected_answer("the template has no type");
    (*request)["type"] = type;
    return json::serialize(*request);
}

}  // namespace platform
