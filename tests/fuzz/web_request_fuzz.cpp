#include "agent/service/control.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

// Arbitrary requests to the control socket, and to the metrics listener, which the same code serves: each is
// answered or refused, without an exception.

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

io::awaitable<service::verb_answer> perform(service::verb_request, std::function<bool()>)
{
    co_return service::verb_answer();
}

io::task<crypto::secret> access_token(std::optional<crypto::secret>)
{
    co_return crypto::secret("not a real one");
}

io::awaitable<service::web_answer> show(service::web_request)
{
    co_return service::web_answer{.body = "{}"};
}

struct loopback {
    asio::io_context context{1};
    io::stop_event stop{context.get_executor()};
    service::task_group group{context.get_executor(), stop};
    service::web_server server{
        group, "fuzz",
        service::control_handler({.perform = perform, .access_token = access_token, .show = show})};

    loopback()
    {
        if (!server.listen_tcp("127.0.0.1", 0)) std::abort();
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static loopback net;
    tcp::socket client(net.context);
    client.connect({asio::ip::address_v4::loopback(), net.server.port()});
    boost::system::error_code ended;
    bool done = false;
    std::string answer(4096, '\0');
    std::function<void()> read = [&] {
        client.async_read_some(asio::buffer(answer), [&](boost::system::error_code error, std::size_t) {
            if (error)
                done = true;
            else
                read();
        });
    };
    asio::async_write(client, asio::buffer(data, size), [&](boost::system::error_code, std::size_t) {
        client.shutdown(tcp::socket::shutdown_send, ended);
        read();
    });
    net.context.restart();
    while (!done)
        net.context.run_one();
    return 0;
}
