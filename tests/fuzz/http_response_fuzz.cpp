#include "agent/io/http_connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

// Arbitrary bytes from a server: a response within the limits or a failure, but never an exception or an
// endless read. The first byte selects the response to a request or a proxy's response to CONNECT.

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t body_limit = 4096;

struct loopback {
    asio::io_context context{1};
    tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
};

void run(loopback& net, io::awaitable<void> client, const std::uint8_t* data, std::size_t size)
{
    std::optional<tcp::socket> server;
    net.acceptor.async_accept([&](boost::system::error_code error, tcp::socket accepted) {
        if (error) std::abort();
        server.emplace(std::move(accepted));
        asio::async_write(*server, asio::buffer(data, size), [&](boost::system::error_code, std::size_t) {
            boost::system::error_code ignored;
            server->shutdown(tcp::socket::shutdown_send, ignored);
        });
    });
    asio::co_spawn(net.context, std::move(client), [](std::exception_ptr error) {
        if (error) std::abort();
    });
    net.context.restart();
    net.context.run();
}

io::awaitable<void> read_response(tcp::endpoint server, bool consuming)
{
    io::http_connection connection(co_await asio::this_coro::executor);
    connection.expires_at(std::chrono::steady_clock::now() + std::chrono::seconds(5));
    co_await connection.tcp().async_connect(server, asio::use_awaitable);
    std::size_t consumed = 0;
    io::http_request request;
    request.body_limit = body_limit;
    if (consuming)
        request.consume = [&](std::string_view piece) -> policy::result<void> {
            consumed += piece.size();
            return {};
        };
    const io::large_body none = []() -> io::awaitable<void> { co_return; };
    const auto answer = co_await io::receive(connection, request, none);
    if (answer.error == boost::beast::error::timeout) std::abort();
    if (consumed > body_limit) std::abort();
    if (answer.response && (answer.response->status < 200 || answer.response->body.size() > body_limit))
        std::abort();
    if (!answer.response && answer.response.error().context.empty()) std::abort();
}

// After any such response of a proxy there is no server behind the tunnel, so the TLS handshake fails.
io::awaitable<void> ask_proxy(tcp::endpoint server, io::stop_event& stop)
{
    io::tls_trust trust({}, {});
    io::proxy via{.host = "127.0.0.1", .port = server.port(), .authorization = {}};
    io::http_address to{.tls = true, .host = "les.example.com", .port = 443, .target = "/"};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    const auto connection = co_await io::connect(to, std::move(via), trust, deadline, stop);
    if (connection || !policy::never_sent(connection.error())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static loopback net;
    static io::stop_event stop(net.context.get_executor());
    if (size == 0) return 0;
    const auto server = net.acceptor.local_endpoint();
    run(net, data[0] == 'C' ? ask_proxy(server, stop) : read_response(server, data[0] == 'P'), data + 1,
        size - 1);
    return 0;
}
