#include "agent/platform/authorize.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

// Arbitrary input of local programs or web pages to the listener of `login`: only a GET with our state and a
// code or an error ends the wait, and nothing makes it throw.

namespace asio = boost::asio;
using asio::ip::tcp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static asio::io_context context{1};
    static tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
    // a new source address for each input: one address would run out of ports
    static std::uint32_t inputs = 0;
    const asio::ip::address_v4 source(asio::ip::address_v4::loopback().to_uint() + ++inputs % 0x00ff'ff00);
    tcp::socket client(context, tcp::endpoint(source, 0));
    tcp::socket server(context);
    // asynchronously: libFuzzer's timer would interrupt a blocking call
    const auto must_succeed = [](boost::system::error_code error) {
        if (error) std::abort();
    };
    client.async_connect(acceptor.local_endpoint(), must_succeed);
    acceptor.async_accept(server, must_succeed);
    context.restart();
    context.run();
    std::string target;
    asio::co_spawn(context, platform::serve_redirect(boost::beast::tcp_stream(std::move(server)), "s1"),
                   [&](std::exception_ptr thrown, std::string answer) {
                       if (thrown) std::abort();
                       target = std::move(answer);
                   });
    asio::async_write(client, asio::buffer(data, size), [&](boost::system::error_code, std::size_t) {
        boost::system::error_code ignored;
        client.shutdown(tcp::socket::shutdown_send, ignored);
    });
    context.restart();
    context.run();
    const std::string sent(reinterpret_cast<const char*>(data), size);
    if (!target.empty() && (!sent.starts_with("GET ") || target.find("state=") == std::string::npos))
        std::abort();
    return 0;
}
