#include "agent/service/control_server.hpp"

#include "agent/platform/json.hpp"
#include "agent/service/operations.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <memory>

namespace service {
namespace {

namespace json = boost::json;

constexpr std::string_view prefix = "/v1/";
constexpr std::string_view access_token = "access-token";
constexpr std::string_view ping = "ping";
constexpr std::array<std::string_view, 9> verbs = {"reconcile", "rotate", "rollback", "deploy",      "login",
                                                   "logout",    "notify", "import",   "decommission"};

web_answer in_json(unsigned status, const json::object& body)
{
    return {.status = status, .body = json::serialize(body)};
}

web_answer wrong(unsigned status, std::string what)
{
    return in_json(status, answer_of({.code = policy::errc::usage, .context = std::move(what)}));
}

bool are_names(const json::value& value)
{
    return value.is_array() &&
           std::ranges::all_of(value.as_array(), [](const auto& v) { return v.is_string(); });
}

// The arguments in memory that wipes itself: a login's hold a secret. None: no JSON object, or odd names.
std::optional<json::object> read_arguments(std::string body, json::storage_ptr memory)
{
    boost::system::error_code error;
    auto value = json::parse(body.empty() ? "{}" : body, error, std::move(memory));
    crypto::wipe(body);
    if (error || !value.is_object()) return std::nullopt;
    if (const auto* names = value.as_object().if_contains("names"); names && !are_names(*names))
        return std::nullopt;
    return std::move(value.as_object());
}

io::awaitable<web_answer> give_token(std::shared_ptr<const control_points> points, json::object arguments)
{
    std::optional<crypto::secret> refused;
    if (const auto* given = arguments.if_contains("refused"); given && given->is_string())
        refused.emplace(std::string_view(given->as_string()));
    const auto token = co_await points->access_token(std::move(refused));
    if (!token) {
        auto answer = answer_of(token.error());
        answer["code"] = policy::word_of(token.error().code);
        co_return in_json(200, answer);
    }
    json::object answer(json::make_shared_resource<platform::wiping_storage>());
    answer["access_token"] = json::string_view(token->view());
    co_return in_json(200, answer);
}

io::awaitable<web_answer> answer_control(std::shared_ptr<const control_points> points, web_request request)
{
    if (!request.target.starts_with(prefix)) co_return co_await points->show(std::move(request));
    if (request.method != "POST") co_return wrong(405, "only POST is answered here");
    const std::string verb = request.target.substr(prefix.size());
    if (verb != access_token && verb != ping && std::ranges::find(verbs, verb) == verbs.end())
        co_return wrong(404, "there is no operation " + verb);
    auto arguments =
        read_arguments(std::move(request.body), json::make_shared_resource<platform::wiping_storage>());
    if (!arguments) co_return wrong(400, "the arguments must be a JSON object, names a list of texts");
    if (verb == ping) co_return in_json(200, {{"exit", 0}, {"messages", json::array()}});
    if (verb == access_token) co_return co_await give_token(std::move(points), std::move(*arguments));
    co_return in_json(200, co_await points->perform(verb, std::move(*arguments), std::move(request.is_gone)));
}

}  // namespace

web_handler control_handler(control_points points)
{
    return [shared = std::make_shared<const control_points>(std::move(points))](web_request request) {
        return answer_control(shared, std::move(request));
    };
}

}  // namespace service
