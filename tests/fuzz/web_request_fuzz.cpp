#include "agent/service/control.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

// Arbitrary requests to the control socket, and to the metrics listener, which the same code serves: each is
// answered or refused, without an exception.

namespace asio = boost::asio;
using unix_stream = asio::local::stream_protocol;

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

// A Unix socket: TCP would run out of ports.
struct listener {
    asio::io_context context{1};
    io::stop_event stop{context.get_executor()};
    service::task_group group{context.get_executor(), stop};
    service::web_server server{
        group, "fuzz",
        service::control_handler({.perform = perform, .access_token = access_token, .show = show})};

    std::string directory = (std::filesystem::temp_directory_path() / "fuzz-web-XXXXXX").native();
    std::string path;

    listener()
    {
        if (::mkdtemp(directory.data()) == nullptr) std::abort();
        path = directory + "/socket";
        if (!server.listen_unix(path, 0600, true)) std::abort();
    }
    ~listener()
    {
        server.close();
        std::filesystem::remove_all(directory);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static listener net;
    unix_stream::socket client(net.context);
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
    // asynchronously: libFuzzer's timer would interrupt a blocking call
    client.async_connect(unix_stream::endpoint(net.path), [&](boost::system::error_code error) {
        if (error) std::abort();
        asio::async_write(client, asio::buffer(data, size), [&](boost::system::error_code, std::size_t) {
            client.shutdown(unix_stream::socket::shutdown_send, ended);
            read();
        });
    });
    net.context.restart();
    while (!done)
        net.context.run_one();
    return 0;
}
