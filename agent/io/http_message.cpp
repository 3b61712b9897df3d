#include "agent/io/http_message.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/span_body.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace io {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http_ = boost::beast::http;
using policy::errc;
using policy::failure;
using policy::retry;

namespace {

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t piece_bytes = 16 << 10;  // one TLS record
constexpr int interim_answers = 8;             // 1xx before the final one, at most

using wiped_fields = http_::basic_fields<crypto::wiping_allocator<char>>;

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

failure lost(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

std::string lower(std::string_view text)
{
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

template <class Body>
wiped_buffer text_of(const http_::request<Body, wiped_fields>& message)
{
    wiped_buffer text;
    http_::request_serializer<Body, wiped_fields> serializer(message);
    while (!serializer.is_done()) {
        beast::error_code error;
        serializer.next(error, [&](beast::error_code&, const auto& buffers) {
            const auto bytes = beast::buffer_bytes(buffers);
            text.commit(asio::buffer_copy(text.prepare(bytes), buffers));
            serializer.consume(bytes);
        });
        if (error) break;  // none is possible: the body is in memory
    }
    return text;
}

// Grows without leaving a copy of its content behind.
void append(std::string& body, std::string_view piece)
{
    if (body.size() + piece.size() > body.capacity()) {
        std::string larger;
        larger.reserve(std::max(body.capacity() * 2, body.size() + piece.size()));
        larger.append(body);
        crypto::wipe(body);
        body = std::move(larger);
    }
    body.append(piece);
}

bool ended_by_peer(const beast::error_code& error)
{
    return error == asio::error::eof || error == asio::error::connection_reset ||
           error == asio::error::broken_pipe || error == asio::ssl::error::stream_truncated ||
           error == http_::error::end_of_stream || error == http_::error::partial_message;
}

std::string size_in_words(std::size_t bytes)
{
    return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

// A TLS server's alert in answer to plain HTTP (RFC 8446 section 5.1).
bool is_tls_alert(const wiped_buffer& buffer)
{
    const auto* bytes = static_cast<const unsigned char*>(buffer.cdata().data());
    return buffer.size() >= 2 && bytes[0] == 21 && bytes[1] == 3;
}

failure connection_ended(const http_connection& connection, const beast::error_code& error, bool nothing)
{
    if (nothing && !connection.encrypted())
        return lost(errc::no_answer, "the server closed the connection; is this an https address?");
    const std::string when = nothing ? "before it answered" : "in the middle of its answer";
    const std::string why = error == asio::ssl::error::stream_truncated ? " without ending TLS properly"
                            : error == asio::error::connection_reset    ? " (connection reset)"
                                                                        : "";
    return lost(errc::no_answer, "the server closed the connection " + when + why);
}

using response_parser = http_::response_parser<http_::buffer_body>;

http_response head_of(const response_parser& parser)
{
    http_response response;
    response.status = parser.get().result_int();
    for (const auto& field : parser.get())
        response.headers[lower(field.name_string())] = std::string(field.value());
    return response;
}

bool succeeded(const http_response& response)
{
    return response.status >= 200 && response.status < 300;
}

std::optional<std::string> unwanted_encoding(const http_response& response)
{
    const auto found = response.headers.find("content-encoding");
    if (found == response.headers.end() || found->second.empty() || lower(found->second) == "identity")
        return std::nullopt;
    return found->second;
}

}  // namespace

failure unusable_answer(const beast::error_code& error)
{
    if (error == http_::error::header_limit || error == http_::error::buffer_overflow)
        return lost(errc::bad_answer, "the header of the answer is larger than " +
                                          size_in_words(policy::limits::response_header_bytes));
    if (ended_by_peer(error)) return lost(errc::no_answer, "it closed the connection before it answered");
    return lost(errc::bad_answer, "the answer is not HTTP (" + error.message() + ")");
}

policy::result<wiped_buffer> request_text(const http_request& request, const http_address& to)
{
    if (!is_token(request.method)) return refused_text("not a method: a bug");
    const std::string_view body = request.body ? request.body->view() : "";
    http_::request<http_::span_body<const char>, wiped_fields> message;
    message.version(11);
    message.method_string(request.method);
    message.target(to.target);
    message.set(http_::field::host, host_header(to));
    for (const auto& [name, value] : request.headers) {
        if (!is_token(name) || !is_one_line(value))
            return refused_text("the header " + name + " cannot be sent");
        message.set(name, value);
    }
    if (message.find(http_::field::user_agent) == message.end())
        message.set(http_::field::user_agent, "exposure-agent");
    if (request.body || request.method == "POST") message.content_length(body.size());
    if (request.authorization) {
        const auto value = request.authorization->view();
        if (!is_one_line(value))
            return refused_text("the access token contains a line break; check where it comes from");
        message.set(http_::field::authorization, {value.data(), value.size()});
    }
    message.body() = {body.data(), body.size()};
    return text_of(message);
}

wiped_buffer connect_request(const http_address& to, const proxy& via)
{
    const auto authority = host_and_port(to.host, to.port);
    http_::request<http_::empty_body, wiped_fields> message(http_::verb::connect, authority, 11);
    message.set(http_::field::host, authority);
    message.set(http_::field::user_agent, "exposure-agent");
    if (via.authorization) {
        const auto value = via.authorization->view();
        message.set(http_::field::proxy_authorization, {value.data(), value.size()});
    }
    return text_of(message);
}

awaitable<received> receive(http_connection& connection, const http_request& request, large_body before_large)
{
    wiped_buffer buffer(policy::limits::response_header_bytes + 2 * piece_bytes);
    bool anything = false;
    const auto failed = [&](const beast::error_code& error) {
        if (!connection.encrypted() && is_tls_alert(buffer))
            return received{lost(errc::bad_answer, "the server expects TLS; is this an https address?"),
                            false, false, error};
        if (ended_by_peer(error))
            return received{connection_ended(connection, error, !anything), false, !anything, error};
        if (error == http_::error::body_limit)
            return received{
                lost(errc::bad_answer, "the answer is larger than " + size_in_words(request.body_limit)),
                false, false, error};
        return received{unusable_answer(error), false, false, error};
    };

    std::optional<response_parser> parser;
    for (int i = 0;; ++i) {
        if (i > interim_answers)
            co_return received{lost(errc::bad_answer, "the server sent only interim (1xx) answers")};
        parser.emplace();
        parser->header_limit(policy::limits::response_header_bytes);
        parser->body_limit(request.body_limit);
        const auto [error, bytes] = co_await http_::async_read_header(connection, buffer, *parser, use_tuple);
        anything = anything || bytes > 0 || buffer.size() > 0;
        if (error) co_return failed(error);
        if (parser->get().result_int() >= 200) break;
    }

    auto response = head_of(*parser);
    const auto encoding = unwanted_encoding(response);
    if (encoding && succeeded(response))
        co_return received{
            lost(errc::bad_answer, "the answer is compressed (Content-Encoding: " + *encoding +
                                       "), which was not asked for; check the proxy in front")};
    const bool consumed = request.consume && succeeded(response);

    std::vector<char, crypto::wiping_allocator<char>> piece(piece_bytes);
    std::size_t total = 0;
    const auto announced = parser->content_length();
    bool large = false;
    while (!parser->is_done()) {
        if (!large && (total > policy::limits::large_response_bytes ||
                       (announced && *announced > policy::limits::large_response_bytes))) {
            large = true;
            co_await before_large();
        }
        parser->get().body() = {piece.data(), piece.size(), true};
        const auto [error, bytes] = co_await http_::async_read_some(connection, buffer, *parser, use_tuple);
        const std::string_view got(piece.data(), piece.size() - parser->get().body().size);
        total += got.size();
        if (consumed) {
            const auto accepted = request.consume(got);
            if (!accepted) co_return received{accepted.error()};
        } else if (!encoding) {
            append(response.body, got);
        }
        if (error && error != http_::error::need_buffer) co_return failed(error);
    }
    const bool keep_alive = parser->keep_alive() && buffer.size() == 0;
    co_return received{std::move(response), keep_alive};
}

}  // namespace io
