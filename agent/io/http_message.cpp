#include "agent/io/http_message.hpp"

#include "policy/limits.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace io {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http_ = boost::beast::http;
using policy::errc;
using policy::failure;
using policy::retry;

namespace {

constexpr std::size_t chunk = 16 << 10;  // one TLS record
constexpr int interim_answers = 8;       // 1xx before the real one, at most

// RFC 9110 section 5.6.2
bool is_token(std::string_view text)
{
    const auto good = [](unsigned char c) {
        return std::isalnum(c) ||
               std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), good);
}

bool is_one_line(std::string_view text)
{
    return std::none_of(text.begin(), text.end(),
                        [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

failure refused_text(std::string what)
{
    return {errc::internal, std::move(what), retry::never, std::nullopt};
}

std::string lower(std::string_view text)
{
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

failure lost(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

failure describe(const boost::system::error_code& error)
{
    if (error == http_::error::body_limit)
        return lost(errc::bad_answer, "the answer is larger than " +
                                          std::to_string(policy::limits::response_bytes >> 20) + " MiB");
    if (error == http_::error::header_limit || error == http_::error::buffer_overflow)
        return lost(errc::bad_answer, "the header of the answer is larger than " +
                                          std::to_string(policy::limits::response_header_bytes >> 10) +
                                          " KiB");
    return lost(errc::bad_answer, "the answer is not HTTP (" + error.message() + ")");
}

// Reads until the parser has what it wants.
template <class Parser, class Done>
awaitable<std::optional<lost_answer>> feed(connection& line, beast::flat_buffer& buffer, Parser& parser,
                                           bool& heard, Done done)
{
    while (!done(parser)) {
        boost::system::error_code error;
        if (buffer.size() > 0) {
            buffer.consume(parser.put(buffer.data(), error));
            if (error && error != http_::error::need_more) co_return lost_answer{describe(error), false};
            if (!error) continue;
        }
        if (buffer.size() + chunk > buffer.max_size())
            co_return lost_answer{describe(http_::error::header_limit), false};
        const auto space = buffer.prepare(chunk);
        const auto got = co_await line.read_some({static_cast<char*>(space.data()), space.size()});
        buffer.commit(got.bytes);
        heard = heard || got.bytes > 0;
        if (got.error) {
            const std::string when = heard ? "in the middle of its answer" : "before it answered";
            co_return lost_answer{
                lost(errc::no_answer, "the connection ended " + when + " (" + got.error.message() + ")"),
                !heard};
        }
    }
    co_return std::nullopt;
}

template <class Parser>
http_response to_response(Parser& parser)
{
    http_response response;
    response.status = parser.get().result_int();
    for (const auto& field : parser.get())
        response.headers[lower(field.name_string())] = std::string(field.value());
    response.body = std::move(parser.get().body());
    return response;
}

}  // namespace

policy::result<crypto::secret> request_text(const http_request& request, const http_address& to)
{
    if (!is_token(request.method)) return refused_text("not a method: a bug");
    std::string text = request.method + " " + to.target + " HTTP/1.1\r\nHost: " + host_header(to) + "\r\n";
    bool named = false;
    for (const auto& [name, value] : request.headers) {
        if (!is_token(name) || !is_one_line(value))
            return refused_text("the header " + name + " cannot be sent");
        named = named || lower(name) == "user-agent";
        text.append(name).append(": ").append(value).append("\r\n");
    }
    if (!named) text += "User-Agent: exposure-agent\r\n";
    if (request.body || request.method == "POST")
        text += "Content-Length: " + std::to_string(request.body ? request.body->view().size() : 0) + "\r\n";

    // Room for everything first: a string that grows leaves a copy of the secret behind.
    const std::string_view authorization = request.authorization ? request.authorization->view() : "";
    const std::string_view body = request.body ? request.body->view() : "";
    if (!is_one_line(authorization))
        return refused_text("the access token holds a line end; check where it comes from");
    text.reserve(text.size() + authorization.size() + body.size() + 64);
    if (request.authorization) text.append("Authorization: ").append(authorization).append("\r\n");
    text.append("\r\n").append(body);
    return crypto::secret(std::move(text));
}

crypto::secret connect_request(const http_address& to, const proxy& via)
{
    const auto authority = host_and_port(to.host, to.port);
    std::string text =
        "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: exposure-agent\r\n";
    const std::string_view authorization = via.authorization ? via.authorization->view() : "";
    text.reserve(text.size() + authorization.size() + 64);
    if (via.authorization) text.append("Proxy-Authorization: ").append(authorization).append("\r\n");
    text += "\r\n";
    return crypto::secret(std::move(text));
}

awaitable<boost::system::result<answer, lost_answer>> read_answer(connection& line)
{
    beast::flat_buffer buffer(policy::limits::response_header_bytes + 2 * chunk);
    bool heard = false;
    for (int i = 0; i < interim_answers; ++i) {
        http_::response_parser<http_::string_body> parser;
        parser.header_limit(policy::limits::response_header_bytes);
        parser.body_limit(policy::limits::response_bytes);
        auto trouble =
            co_await feed(line, buffer, parser, heard, [](const auto& p) { return p.is_header_done(); });
        if (trouble) co_return *trouble;
        if (parser.get().result_int() < 200) continue;
        if (!parser.is_done() && parser.need_eof())
            co_return lost_answer{lost(errc::bad_answer, "the answer does not say where it ends"), false};

        parser.eager(true);
        trouble = co_await feed(line, buffer, parser, heard, [](const auto& p) { return p.is_done(); });
        if (trouble) co_return *trouble;
        const bool keep_alive = parser.keep_alive() && buffer.size() == 0;
        co_return answer{to_response(parser), keep_alive};
    }
    co_return lost_answer{lost(errc::bad_answer, "no final answer after many interim ones"), false};
}

task<unsigned> read_connect_reply(connection& line)
{
    beast::flat_buffer buffer(policy::limits::response_header_bytes + 2 * chunk);
    bool heard = false;
    http_::response_parser<http_::empty_body> parser;
    parser.header_limit(policy::limits::response_header_bytes);
    parser.skip(true);  // whatever follows the header belongs to the tunnel
    const auto trouble =
        co_await feed(line, buffer, parser, heard, [](const auto& p) { return p.is_header_done(); });
    if (trouble) co_return trouble->why;
    if (buffer.size() != 0 && parser.get().result_int() < 300)
        co_return lost(errc::bad_answer, "it speaks before it is spoken to");
    co_return parser.get().result_int();
}

}  // namespace io
