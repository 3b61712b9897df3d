#include "agent/io/http_connection.hpp"

#include "agent/io/http_message.hpp"
#include "agent/io/resolve.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>

namespace io {

namespace asio = boost::asio;
namespace beast = boost::beast;
using policy::errc;
using policy::failure;
using policy::retry;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

// An address that drops packets (a firewall, IPv6 that leads nowhere) delays the next one by this at most.
constexpr std::chrono::seconds longest_per_address{5};

failure unsent(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

failure too_slow(const std::string& step)
{
    return unsent(errc::timed_out, step + " took too long; check the network and network.timeout");
}

// What the stop or the deadline did to a step, if that is what ended it.
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
            beast::error_code ignored;  // a latency hint, no more
            connection->tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
            co_return connection;
        }
        const bool timed_out = error == beast::error::timeout;
        reasons += (reasons.empty() ? "" : ", ") + peer.address().to_string() + ": " +
                   (timed_out ? "no answer" : error.message());
        if (timed_out && clock_type::now() >= deadline)
            co_return unsent(errc::timed_out, "cannot connect in time (" + reasons + "); check the network");
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
    answer.skip(true);  // what follows the header belongs to the tunnel
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
        // What came with the last answer waits inside: decrypted, or in the pair of BIOs that Asio reads
        // through.
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

}  // namespace io
