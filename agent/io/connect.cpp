#include "agent/io/connect.hpp"

#include "agent/io/http_message.hpp"
#include "agent/io/resolve.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>

namespace io {

namespace asio = boost::asio;
using policy::errc;
using policy::failure;
using policy::retry;

namespace {

// An address that swallows packets (a firewall, IPv6 that leads nowhere) delays the next one by this at most.
constexpr std::chrono::seconds patience_per_address{5};

failure unsent(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

// The step was cut short by the limit, if it was.
std::optional<failure> cut_short(const time_limit& limit, const std::string& step)
{
    if (limit.stopped()) return stopped();
    if (limit.late())
        return unsent(errc::timed_out, step + " took too long; check the network, or network.timeout");
    return std::nullopt;
}

task<std::unique_ptr<connection>> connect_tcp(std::string host, std::uint16_t port, time_limit& limit)
{
    const auto peers = co_await resolve(host, port, limit);
    if (!peers) co_return peers.error();

    const auto executor = co_await asio::this_coro::executor;
    std::string trouble;
    for (const auto& peer : *peers) {
        auto line = std::make_unique<connection>(executor);
        const bool last = &peer == &peers->back();
        const auto patience = std::chrono::steady_clock::now() + patience_per_address;
        time_limit attempt(executor, limit.stop(),
                           last ? limit.deadline() : std::min(limit.deadline(), patience));
        attempt.on_over([&line] { line->close(); });
        const auto error = co_await line->connect(peer);
        if (!error && !attempt.over()) co_return line;
        if (attempt.stopped()) co_return stopped();
        trouble += (trouble.empty() ? "" : ", ") + peer.address().to_string() + ": " +
                   (attempt.late() ? "no answer" : error.message());
        if (std::chrono::steady_clock::now() >= limit.deadline())
            co_return unsent(errc::timed_out, "cannot connect in time (" + trouble + "); check the network");
    }
    co_return unsent(errc::not_connected, "cannot connect (" + trouble + ")");
}

failure refused_by_proxy(unsigned status)
{
    const auto code = std::to_string(status);
    if (status == 407)
        return {errc::not_connected,
                "the proxy wants a login (407); put user and password into the proxy's URL",
                retry::after_change, std::nullopt};
    return unsent(errc::not_connected, "the proxy does not let us through (status " + code + ")");
}

task<void> tunnel(connection& line, const http_address& to, const proxy& via, time_limit& limit)
{
    auto request = connect_request(to, via);
    limit.on_over([&line] { line.close(); });
    const auto sent = co_await line.write(request.view());
    if (auto failed = cut_short(limit, "asking the proxy")) co_return *failed;
    if (sent.error) co_return unsent(errc::not_connected, "the proxy closed the connection");

    const auto status = co_await read_connect_reply(line);
    limit.on_over({});
    if (auto failed = cut_short(limit, "the proxy's answer")) co_return *failed;
    if (!status) co_return unsent(errc::not_connected, "the proxy: " + status.error().context);
    if (*status < 200 || *status > 299) co_return refused_by_proxy(*status);
    co_return policy::result<void>();
}

failure describe_handshake(const connection& line, const boost::system::error_code& error)
{
    if (!line.certificate_trouble().empty())
        return {errc::untrusted, line.certificate_trouble(), retry::after_change, std::nullopt};
    if (is_closed_by_peer(error))
        return unsent(errc::not_connected, "the peer closed the connection during the TLS handshake");
    return unsent(errc::untrusted,
                  "the TLS handshake failed (" + error.message() + "); check address and port");
}

task<void> secure(connection& line, const http_address& to, tls_trust& trust, time_limit& limit)
{
    const auto context = trust.context();
    if (!context) co_return context.error();
    limit.on_over([&line] { line.close(); });
    const auto error = co_await line.start_tls(**context, to.host);
    limit.on_over({});
    if (auto failed = cut_short(limit, "the TLS handshake")) co_return *failed;
    if (error) co_return describe_handshake(line, error);
    co_return policy::result<void>();
}

}  // namespace

task<std::unique_ptr<connection>> connect(const http_address& to, const std::optional<proxy>& via,
                                          tls_trust& trust, time_limit& limit)
{
    auto line = co_await connect_tcp(via ? via->host : to.host, via ? via->port : to.port, limit);
    if (!line && via)
        co_return policy::with_context("proxy " + host_and_port(via->host, via->port), line.error());
    if (!line) co_return line.error();
    if (via) {
        const auto through = co_await tunnel(**line, to, *via, limit);
        if (!through)
            co_return policy::with_context("proxy " + host_and_port(via->host, via->port), through.error());
    }
    if (to.tls) {
        const auto secured = co_await secure(**line, to, trust, limit);
        if (!secured) co_return secured.error();
    }
    co_return std::move(*line);
}

}  // namespace io
