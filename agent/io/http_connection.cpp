#include "agent/io/http_connection.hpp"

#include "agent/io/async.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/this_coro.hpp>
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
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace io {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http_ = boost::beast::http;
using policy::errc;
using policy::failure;
using policy::retry;
using clock_type = std::chrono::steady_clock;
using endpoints = std::vector<asio::ip::tcp::endpoint>;

namespace {

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

// --- Name resolution that can be abandoned

// Shared by the lookup thread and its waiter. The last of them frees it.
struct lookup {
    std::mutex mutex;
    async_event* done = nullptr;  // null: abandoned, the executor may no longer exist
    asio::any_io_executor executor;
    int error = 0;  // EAI_*
    int error_number = 0;
    endpoints found;
};

void look_up(const std::shared_ptr<lookup>& shared, const std::string& host, std::uint16_t port)
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
    const int error_number = errno;

    endpoints found;
    for (const auto* entry = list; entry; entry = entry->ai_next) {
        asio::ip::tcp::endpoint endpoint;
        if (entry->ai_addrlen > endpoint.capacity()) continue;
        std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
        endpoint.resize(entry->ai_addrlen);
        endpoint.port(port);
        found.push_back(endpoint);
    }
    if (list) ::freeaddrinfo(list);

    const std::lock_guard lock(shared->mutex);
    if (!shared->done) return;
    shared->error = error;
    shared->error_number = error_number;
    shared->found = std::move(found);
    asio::post(shared->executor, [shared] {
        if (shared->done) shared->done->set();
    });
}

policy::failure not_resolved(const std::string& host, const std::string& why)
{
    return {policy::errc::not_resolved,
            "the host name " + host + " cannot be resolved (" + why + "); check the name and this host's DNS",
            policy::retry::later, std::nullopt};
}

// All addresses in the order of getaddrinfo(3); IP literals need no lookup. Each lookup has its own thread,
// because getaddrinfo cannot be cancelled, while Asio's resolver runs lookups one after the other and delays
// the program's exit until the last. Limit it with with_deadline. Failures: not_resolved, stopping.
task<endpoints> resolve(std::string host, std::uint16_t port, stop_event& stop)
{
    boost::system::error_code not_a_literal;
    const auto address = asio::ip::make_address(host, not_a_literal);
    if (!not_a_literal) co_return endpoints{{address, port}};

    const auto shared = std::make_shared<lookup>();
    shared->executor = co_await asio::this_coro::executor;
    async_event done(shared->executor);
    shared->done = &done;
    const struct abandon {
        lookup& shared;
        ~abandon()
        {
            const std::lock_guard lock(shared.mutex);
            shared.done = nullptr;
        }
    } abandon{*shared};
    try {
        std::thread(look_up, shared, host, port).detach();
    } catch (const std::system_error& e) {
        co_return not_resolved(host, e.what());
    }

    const auto on_stop = stop.on_request([&done] { done.set(); });
    co_await done.wait();
    if (stop.requested()) co_return stopped();
    if (shared->error == EAI_SYSTEM) co_return not_resolved(host, std::strerror(shared->error_number));
    if (shared->error != 0) co_return not_resolved(host, ::gai_strerror(shared->error));
    if (shared->found.empty()) co_return not_resolved(host, "it has no address");
    co_return std::move(shared->found);
}

// --- Connecting

// An address that drops packets (firewall, broken IPv6) delays the next one by at most this.
constexpr std::chrono::seconds longest_per_address{5};

failure unsent(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

failure too_slow(const std::string& step)
{
    return unsent(errc::timed_out, step + " took too long; check the network and network.timeout");
}

// The failure of a step that a stop or the deadline interrupted; nullopt if neither did.
std::optional<failure> cut_short(const beast::error_code& error, const stop_event& stop,
                                 const std::string& step)
{
    if (!error) return std::nullopt;
    if (stop.requested()) return stopped();
    if (error == beast::error::timeout) return too_slow(step);
    return std::nullopt;
}

std::chrono::milliseconds left_until(steady_time deadline)
{
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_type::now()),
                    std::chrono::milliseconds(0));
}

task<std::shared_ptr<http_connection>> connect_tcp(std::string host, std::uint16_t port, steady_time deadline,
                                                   stop_event& stop)
{
    failure late = unsent(errc::timed_out, "DNS did not answer for " + host + " in time");
    auto lookup = resolve(host, port, stop);
    const auto peers = co_await with_deadline(left_until(deadline), std::move(lookup), std::move(late));
    if (!peers) co_return peers.error();

    const auto executor = co_await asio::this_coro::executor;
    std::string reasons;
    for (std::size_t i = 0; i < peers->size(); ++i) {
        const auto connection = std::make_shared<http_connection>(executor);
        const auto on_stop = stop.on_request([&connection] { connection->close(); });
        const bool last = i + 1 == peers->size();
        const auto now = clock_type::now();
        const auto share = (deadline - now) / static_cast<int>(peers->size() - i);
        connection->expires_at(last ? deadline
                                    : now + std::min<clock_type::duration>(share, longest_per_address));
        const auto& peer = (*peers)[i];
        const auto [error] = co_await connection->tcp().async_connect(peer, use_tuple);
        if (stop.requested()) co_return stopped();
        if (!error) {
            beast::error_code ignored;  // only a latency hint, may fail
            connection->tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
            co_return connection;
        }
        const bool timed_out = error == beast::error::timeout;
        reasons += (reasons.empty() ? "" : ", ") + peer.address().to_string() + ": " +
                   (timed_out ? "no answer" : error.message());
        if (timed_out && clock_type::now() >= deadline)
            co_return unsent(errc::timed_out, "connection timed out (" + reasons + "); check the network");
    }
    co_return unsent(errc::not_connected, "cannot connect (" + reasons + ")");
}

failure refused_by_proxy(unsigned status, bool with_credentials)
{
    if (status == 407)
        return {errc::not_connected,
                with_credentials
                    ? "the proxy rejected the user name or password (407); check network.proxy_auth"
                    : "the proxy requires a user name and password (407); set network.proxy_auth",
                retry::after_change, std::nullopt};
    return unsent(errc::not_connected,
                  "the proxy refuses to connect to the server (status " + std::to_string(status) + ")");
}

task<void> tunnel(http_connection& connection, const http_address& to, const proxy& via, stop_event& stop)
{
    const auto request = connect_request(to, via);
    const auto sent = co_await connection.write(request);
    if (const auto cut = cut_short(sent.error, stop, "asking the proxy")) co_return *cut;
    if (sent.error) co_return unsent(errc::not_connected, "the proxy closed the connection");

    beast::flat_buffer buffer(policy::limits::response_header_bytes);
    beast::http::response_parser<beast::http::empty_body> answer;
    answer.header_limit(policy::limits::response_header_bytes);
    answer.skip(true);  // everything after the header belongs to the tunnel
    const auto [error, bytes] =
        co_await beast::http::async_read_header(connection.tcp(), buffer, answer, use_tuple);
    if (const auto cut = cut_short(error, stop, "the proxy's answer")) co_return *cut;
    if (error) co_return unsent(errc::not_connected, "the proxy: " + unusable_answer(error).context);
    const auto status = answer.get().result_int();
    if (status < 200 || status > 299) co_return refused_by_proxy(status, via.authorization.has_value());
    if (buffer.size() != 0)
        co_return unsent(errc::not_connected, "the proxy sent data before the TLS handshake");
    co_return policy::result<void>();
}

task<void> secure(http_connection& connection, const http_address& to, tls_trust& trust, stop_event& stop)
{
    const auto context = trust.context();
    if (!context) co_return context.error();
    auto& stream = connection.start_tls(**context);
    if (const auto ready = expect_server(stream.native_handle(), to.host); !ready) co_return ready.error();
    const auto refused = std::make_shared<std::string>();
    stream.set_verify_callback([refused, host = to.host](bool good, asio::ssl::verify_context& check) {
        if (!good && refused->empty()) *refused = why_refused(*check.native_handle(), host);
        return good;
    });
    const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, use_tuple);
    if (const auto cut = cut_short(error, stop, "the TLS handshake")) co_return *cut;
    if (!refused->empty()) co_return failure{errc::untrusted, *refused, retry::after_change, std::nullopt};
    if (error) co_return handshake_failure(error);
    co_return policy::result<void>();
}

}  // namespace

http_connection::http_connection(asio::any_io_executor executor) : tcp_(std::move(executor)) {}

bool http_connection::is_quiet()
{
    if (tls_) {
        // Bytes that arrived with the last answer may be buffered:
        // decrypted by OpenSSL, or in the BIO pair that Asio reads from.
        const SSL* ssl = tls_->native_handle();
        if (::SSL_pending(ssl) > 0 || ::BIO_ctrl_pending(::SSL_get_rbio(ssl)) > 0) return false;
    }
    char byte = 0;
    const auto seen = ::recv(tcp_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

awaitable<http_connection::sent> http_connection::write(const wiped_buffer& text)
{
    sent done;
    while (done.bytes < text.size()) {
        const auto rest = text.cdata() + done.bytes;
        const auto [error, bytes] = co_await async_write_some(asio::const_buffer(rest), use_tuple);
        done.bytes += bytes;
        done.error = error;
        if (error) break;
    }
    co_return done;
}

task<std::shared_ptr<http_connection>> connect(http_address to, std::optional<proxy> via, tls_trust& trust,
                                               steady_time deadline, stop_event& stop)
{
    const auto proxy_name = via ? "proxy " + host_and_port(via->host, via->port) : "";
    const auto connection =
        co_await connect_tcp(via ? via->host : to.host, via ? via->port : to.port, deadline, stop);
    if (!connection) {
        if (via) co_return policy::with_context(proxy_name, connection.error());
        co_return connection.error();
    }
    const auto on_stop = stop.on_request([&connection] { (*connection)->close(); });
    (*connection)->expires_at(deadline);
    if (via) {
        const auto through = co_await tunnel(**connection, to, *via, stop);
        if (!through) co_return policy::with_context(proxy_name, through.error());
    }
    if (to.tls) {
        const auto secured = co_await secure(**connection, to, trust, stop);
        if (!secured) co_return secured.error();
    }
    co_return *connection;
}

// --- Messages

namespace {

constexpr std::size_t piece_bytes = 16 << 10;  // one TLS record
constexpr int interim_answers = 8;             // at most this many 1xx answers before the final one

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
        if (error) break;  // cannot happen: the body is in memory
    }
    return text;
}

// Appends without leaving copies of the content in freed memory.
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

// A TLS server answers plain HTTP with an alert (RFC 8446 section 5.1).
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
    if (!is_token(request.method)) return refused_text("invalid HTTP method (a bug in exposure-agent)");
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
                                       "), which was not requested; check the proxy in front of the server")};
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
