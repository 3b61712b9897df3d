#include "agent/service/control.hpp"

#include "agent/platform/json.hpp"
#include "agent/service/operations.hpp"
#include "agent/service/web_server.hpp"
#include "policy/limits.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
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

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace json = boost::json;

using stream = beast::basic_stream<asio::local::stream_protocol>;
using boost::system::error_code;

constexpr auto token_patience = std::chrono::seconds(60);  // a refresh may be under way
constexpr auto quiet = asio::as_tuple(asio::use_awaitable);

// Nobody listens: no socket, or one that a dead daemon left.
bool is_nobody(const error_code& error)
{
    return error == boost::system::errc::no_such_file_or_directory ||
           error == boost::system::errc::not_a_directory || error == asio::error::connection_refused;
}

policy::failure cannot_ask(const disk::paths& where, const error_code& error)
{
    if (error == boost::system::errc::permission_denied)
        return {.code = policy::errc::busy,
                .context = "the running daemon's socket " + where.control_socket().native() +
                           " is not for this user: run as root or as the user that the daemon runs as",
                .kind = policy::retry::never};
    return {.code = policy::errc::unavailable,
            .context = "the running daemon gave no answer over " + where.control_socket().native() + " (" +
                       error.message() + "); it may have done the work: see `status`"};
}

// One POST to the daemon: the body of its answer, or none when no daemon runs.
io::task<std::optional<std::string>> post(disk::paths where, std::string target, crypto::secret body,
                                          std::chrono::milliseconds timeout)
{
    using text = std::optional<std::string>;
    const auto socket = reach(where.control_socket());
    if (!socket) co_return text();
    stream connection(co_await asio::this_coro::executor);
    connection.expires_after(timeout);
    const asio::local::stream_protocol::endpoint daemon(socket->text);
    const auto [refused] = co_await connection.async_connect(daemon, quiet);
    if (is_nobody(refused)) co_return text();
    if (refused) co_return cannot_ask(where, refused);

    http::request<http::string_body> request(http::verb::post, target, 11);
    request.set(http::field::host, "localhost");
    request.set(http::field::content_type, "application/json");
    request.body() = body.view();
    request.prepare_payload();
    const auto [unsent, sent] = co_await http::async_write(connection, request, quiet);
    crypto::wipe(request.body());
    if (unsent) co_return cannot_ask(where, unsent);

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(policy::limits::response_bytes);
    const auto [read_error, response] = co_await http::async_read(connection, buffer, parser, quiet);
    if (read_error) co_return cannot_ask(where, read_error);
    co_return text(std::move(parser.get().body()));
}

policy::failure unreadable()
{
    return {
        .code = policy::errc::bad_answer,
        .context = "the running daemon's answer cannot be read: it may be of another version, restart it"};
}

// The failure that the daemon's answer tells of.
policy::failure told(const json::object& answer)
{
    policy::failure failed{.code = policy::errc::unavailable, .context = "the running daemon gave no reason"};
    if (const auto* code = answer.if_contains("code"); code && code->is_string())
        for (int c = 0; c <= static_cast<int>(policy::errc::internal); ++c)
            if (code->as_string() == policy::word_of(static_cast<policy::errc>(c)))
                failed.code = static_cast<policy::errc>(c);
    if (const auto* messages = answer.if_contains("messages"); messages && messages->is_array() &&
                                                               !messages->as_array().empty() &&
                                                               messages->as_array().front().is_string())
        failed.context = std::string(messages->as_array().front().as_string());
    return failed;
}

}  // namespace

io::task<std::optional<json::object>> ask_daemon(disk::paths where, std::string verb, json::object arguments,
                                                 std::chrono::milliseconds timeout)
{
    using answer = std::optional<json::object>;
    crypto::secret body(json::serialize(arguments));
    auto response = co_await post(std::move(where), "/v1/" + verb, std::move(body), timeout);
    if (!response) co_return response.error();
    if (!*response) co_return answer();
    error_code error;
    auto value = json::parse(**response, error);
    if (error || !value.is_object() || !value.as_object().contains("exit")) co_return unreadable();
    co_return answer(std::move(value.as_object()));
}

io::task<crypto::secret> daemon_tokens::current()
{
    return ask(crypto::secret("{}"));
}

io::task<crypto::secret> daemon_tokens::after_refusal(crypto::secret refused)
{
    platform::wiping_storage memory;
    json::object body(json::storage_ptr{&memory});
    body["refused"] = json::string_view(refused.view());
    return ask(crypto::secret(json::serialize(body)));
}

io::task<crypto::secret> daemon_tokens::ask(crypto::secret body)
{
    auto response = co_await post(paths_, "/v1/access-token", std::move(body), token_patience);
    if (!response) co_return response.error();
    if (!*response)
        co_return policy::failure{.code = policy::errc::busy,
                                  .context = "the daemon that had the access token has ended; try again"};
    platform::wiping_storage memory;
    error_code error;
    const auto value = json::parse(**response, error, json::storage_ptr{&memory});
    crypto::wipe(**response);
    if (error || !value.is_object()) co_return unreadable();
    const auto* token = value.as_object().if_contains("access_token");
    if (!token || !token->is_string()) co_return told(value.as_object());
    co_return crypto::secret(std::string_view(token->as_string()));
}

}  // namespace service
