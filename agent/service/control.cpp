#include "agent/service/control.hpp"

#include "agent/disk/record.hpp"
#include "agent/platform/json.hpp"
#include "policy/limits.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <boost/mp11.hpp>

#include <memory>

namespace service {

// Request and answer for the access token. Not a verb: any command may need a token.
struct token_request {
    static constexpr const char* word = "access-token";
    std::optional<crypto::secret> refused;
};
BOOST_DESCRIBE_STRUCT(token_request, (), (refused))

struct token_answer {
    crypto::secret access_token;
};
BOOST_DESCRIBE_STRUCT(token_answer, (), (access_token))

namespace {

namespace json = boost::json;
using disk::record::defaults;
using disk::record::reader;
using disk::record::writer;

constexpr std::string_view prefix = "/v1/";

// For JSON that may hold secrets: memory is wiped when it is freed.
json::storage_ptr wiping_memory()
{
    return json::make_shared_resource<platform::wiping_storage>();
}

template <class T>
std::string written(const T& value, defaults which)
{
    return json::serialize(writer(wiping_memory(), which).encode(value));
}

policy::failure wrong_usage(std::string what)
{
    return {.code = policy::errc::usage, .context = std::move(what), .kind = policy::retry::never};
}

// None: not a JSON object. Wipes the text.
std::optional<json::value> parse_object(std::string text)
{
    boost::system::error_code error;
    auto value = json::parse(text, error, wiping_memory());
    crypto::wipe(text);
    if (error || !value.is_object()) return std::nullopt;
    return value;
}

template <class Request>
policy::result<Request> read_request(std::string body)
{
    const auto arguments = parse_object(body.empty() ? "{}" : std::move(body));
    if (!arguments) return wrong_usage("the arguments must be a JSON object");
    Request request;
    reader from;
    if (!from.decode(*arguments, request)) return wrong_usage("wrong argument: " + from.wrong());
    return request;
}

// nullopt: there is no such verb.
std::optional<policy::result<verb_request>> read_verb(std::string_view word, std::string body)
{
    std::optional<policy::result<verb_request>> found;
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, verb_request>>(
        [&](auto each) {
            using request_type = typename decltype(each)::type;
            if (word != request_type::word) return;
            auto read = read_request<request_type>(std::move(body));
            if (read)
                found.emplace(verb_request(std::move(*read)));
            else
                found.emplace(read.error());
        });
    return found;
}

// ---- the daemon's side

web_answer in_json(unsigned status, const verb_answer& answer)
{
    return {.status = status, .body = json::serialize(to_json(answer))};
}

web_answer refusal(unsigned status, std::string what)
{
    return in_json(status, answer_of(wrong_usage(std::move(what))));
}

io::awaitable<web_answer> give_token(std::shared_ptr<const control_points> points, token_request request)
{
    const auto token = co_await points->access_token(std::move(request.refused));
    if (!token) {
        auto answer = answer_of(token.error());
        answer.code = token.error().code;
        co_return in_json(200, answer);
    }
    const token_answer answer{token->clone()};
    co_return web_answer{.body = written(answer, defaults::written)};
}

io::awaitable<web_answer> answer_control(std::shared_ptr<const control_points> points, web_request request)
{
    if (!request.target.starts_with(prefix)) co_return co_await points->show(std::move(request));
    if (request.method != "POST") co_return refusal(405, "only POST is allowed");
    const std::string word = request.target.substr(prefix.size());
    if (word == token_request::word) {
        auto asked = read_request<token_request>(std::move(request.body));
        if (!asked) co_return refusal(400, asked.error().context);
        co_return co_await give_token(std::move(points), std::move(*asked));
    }
    auto asked = read_verb(word, std::move(request.body));
    if (!asked) co_return refusal(404, "unknown operation " + word);
    if (!*asked) co_return refusal(400, asked->error().context);
    if (std::holds_alternative<verb::ping>(**asked)) co_return in_json(200, verb_answer());
    auto answer = co_await points->perform(std::move(**asked), std::move(request.is_gone));
    co_return in_json(200, answer);
}

}  // namespace

web_handler control_handler(control_points points)
{
    return [shared = std::make_shared<const control_points>(std::move(points))](web_request request) {
        return answer_control(shared, std::move(request));
    };
}

json::object to_json(const verb_answer& answer)
{
    return writer(json::storage_ptr(), defaults::written).encode(answer).as_object();
}

// ---- the client's side

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using stream = beast::basic_stream<asio::local::stream_protocol>;
using boost::system::error_code;

constexpr auto token_patience = std::chrono::seconds(60);  // a refresh may be in progress
constexpr auto quiet = asio::as_tuple(asio::use_awaitable);

// No daemon listens: there is no socket, or one that a dead daemon left.
bool is_nobody(const error_code& error)
{
    return error == boost::system::errc::no_such_file_or_directory ||
           error == boost::system::errc::not_a_directory || error == asio::error::connection_refused;
}

policy::failure cannot_ask(const disk::paths& where, const std::string& target, const error_code& error)
{
    if (error == boost::system::errc::permission_denied)
        return {.code = policy::errc::busy,
                .context = "permission denied on the daemon's socket " + where.control_socket().native() +
                           "; run as root or as the daemon's user",
                .kind = policy::retry::never};
    return {.code = policy::errc::unavailable,
            .context = "the running daemon did not answer (" +
                       (error == beast::error::timeout ? "timed out" : error.message()) + ", " +
                       where.control_socket().native() +
                       (target == "/v1/ping" ? "). Run: systemctl restart exposure-agent"
                                             : "); it may have done the work. Run: exposure-agent status")};
}

// Sends one POST to the daemon. Returns the body of its answer; nullopt when no daemon runs.
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
    if (refused) co_return cannot_ask(where, target, refused);

    http::request<http::string_body> request(http::verb::post, target, 11);
    request.set(http::field::host, "localhost");
    request.set(http::field::content_type, "application/json");
    request.body() = body.view();
    request.prepare_payload();
    const auto [unsent, sent] = co_await http::async_write(connection, request, quiet);
    crypto::wipe(request.body());
    if (unsent) co_return cannot_ask(where, target, unsent);

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(policy::limits::response_bytes);
    const auto [read_error, response] = co_await http::async_read(connection, buffer, parser, quiet);
    if (read_error) co_return cannot_ask(where, target, read_error);
    co_return text(std::move(parser.get().body()));
}

policy::failure unreadable()
{
    return {.code = policy::errc::bad_answer,
            .context =
                "cannot parse the running daemon's answer; the daemon may be of another version. Run: "
                "systemctl restart exposure-agent"};
}

template <class Answer>
policy::result<Answer> read_answer(const json::value& from)
{
    Answer answer;
    reader read;
    if (!read.decode(from, answer)) return unreadable();
    return answer;
}

policy::failure failure_in(const verb_answer& answer)
{
    return {
        .code = answer.code.value_or(policy::errc::unavailable),
        .context = answer.messages.empty() ? "the running daemon gave no reason" : answer.messages.front()};
}

}  // namespace

io::task<std::optional<verb_answer>> ask_daemon(disk::paths where, const verb_request& request,
                                                std::chrono::milliseconds timeout)
{
    using answer = std::optional<verb_answer>;
    const auto target = [](const auto& asked) { return std::string(prefix) + asked.word; };
    const auto body = [](const auto& asked) { return crypto::secret(written(asked, defaults::left_out)); };
    auto path = std::visit(target, request);
    auto arguments = std::visit(body, request);
    auto response = co_await post(std::move(where), std::move(path), std::move(arguments), timeout);
    if (!response) co_return response.error();
    if (!*response) co_return answer();
    const auto value = parse_object(std::move(**response));
    if (!value || !value->as_object().contains("exit")) co_return unreadable();
    auto read = read_answer<verb_answer>(*value);
    if (!read) co_return read.error();
    co_return answer(std::move(*read));
}

io::task<crypto::secret> daemon_tokens::current()
{
    return ask(std::nullopt);
}

io::task<crypto::secret> daemon_tokens::after_refusal(crypto::secret refused)
{
    return ask(std::move(refused));
}

io::task<crypto::secret> daemon_tokens::ask(std::optional<crypto::secret> refused)
{
    const token_request request{std::move(refused)};
    crypto::secret body(written(request, defaults::left_out));
    auto response =
        co_await post(paths_, std::string(prefix) + request.word, std::move(body), token_patience);
    if (!response) co_return response.error();
    if (!*response)
        co_return policy::failure{
            .code = policy::errc::busy,
            .context = "the daemon that provides the access token has stopped; try again"};
    const auto value = parse_object(std::move(**response));
    if (!value) co_return unreadable();
    auto given = read_answer<token_answer>(*value);
    if (given && !given->access_token.empty()) co_return std::move(given->access_token);
    const auto said = read_answer<verb_answer>(*value);
    co_return said ? failure_in(*said) : said.error();
}

}  // namespace service
