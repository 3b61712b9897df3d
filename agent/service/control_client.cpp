#include "agent/service/control_client.hpp"

#include "agent/platform/json.hpp"
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

namespace service {
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
