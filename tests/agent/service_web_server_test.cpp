#include "agent/service/web_server.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using boost::asio::ip::tcp;

namespace {

io::awaitable<service::web_answer> say_ok(service::web_request)
{
    co_return service::web_answer{.type = "text/plain", .body = "ok\n"};
}

// The server runs in a thread of its own; the test's thread acts as the clients.
struct served {
    explicit served(service::web_handler handler, service::web_limits limits = {})
        : server(group, "test", std::move(handler), limits)
    {
        BOOST_REQUIRE(server.listen_tcp("127.0.0.1", 0));
        port = server.port();
        thread = std::thread([this] { context.run(); });
    }
    ~served()
    {
        boost::asio::post(context, [this] {
            stop.request();
            server.close();
        });
        thread.join();
    }

    std::string ask(const std::string& path)
    {
        tcp::socket client = connect();
        boost::asio::write(
            client, boost::asio::buffer("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        std::string answer;
        boost::system::error_code end;
        boost::asio::read(client, boost::asio::dynamic_buffer(answer), end);
        return answer;
    }

    tcp::socket connect()
    {
        tcp::socket client(clients);
        client.connect({boost::asio::ip::address_v4::loopback(), port});
        return client;
    }

    boost::asio::io_context context;
    boost::asio::io_context clients;
    io::stop_event stop{context.get_executor()};
    service::task_group group{context.get_executor(), stop};
    service::web_server server;
    std::uint16_t port = 0;
    std::thread thread;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(service_web_server)

BOOST_AUTO_TEST_CASE(idle_clients_make_room)
{
    served host(say_ok, {.header_patience = 3600s});
    std::vector<tcp::socket> idle;
    for (int i = 0; i < 60; ++i)
        idle.push_back(host.connect());
    BOOST_TEST(host.ask("/healthz").ends_with("ok\n"));
    // the oldest connection was closed first
    char byte = 0;
    boost::system::error_code end;
    idle.front().read_some(boost::asio::buffer(&byte, 1), end);
    BOOST_TEST(end.failed());
}

BOOST_AUTO_TEST_CASE(a_header_has_a_deadline)
{
    served host(say_ok, {.header_patience = 1s});
    auto slow = host.connect();
    boost::asio::write(slow, boost::asio::buffer(std::string("GET / HT")));
    std::string answer;
    boost::system::error_code end;
    boost::asio::read(slow, boost::asio::dynamic_buffer(answer), end);
    BOOST_TEST(end.failed());
    BOOST_TEST(answer.empty());
}

// Long-running commands do not use up the slots for status requests.
BOOST_AUTO_TEST_CASE(requests_under_way_silence_nobody)
{
    boost::asio::io_context* loop = nullptr;
    std::unique_ptr<io::async_event> done;
    const auto handler = [&](service::web_request request) -> io::awaitable<service::web_answer> {
        if (request.target == "/slow") co_await done->wait();
        co_return service::web_answer{.type = "text/plain", .body = "ok\n"};
    };
    served host(handler);
    loop = &host.context;
    done = std::make_unique<io::async_event>(loop->get_executor());
    std::vector<tcp::socket> slow;
    for (int i = 0; i < 40; ++i) {
        slow.push_back(host.connect());
        boost::asio::write(slow.back(),
                           boost::asio::buffer(std::string("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")));
    }
    BOOST_TEST(host.ask("/healthz").ends_with("ok\n"));
    boost::asio::post(*loop, [&] { done->set(); });
    for (auto& each : slow) {
        char byte = 0;
        boost::asio::read(each, boost::asio::buffer(&byte, 1));
        BOOST_TEST(byte == 'H');
    }
    done.reset();  // before the loop it belongs to
}

BOOST_AUTO_TEST_CASE(nothing_listens_after_a_stop)
{
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    service::task_group group(context.get_executor(), stop);
    service::web_server server(group, "late", say_ok);
    stop.request();
    const auto listening = server.listen_tcp("127.0.0.1", 0);
    BOOST_REQUIRE(!listening);
    BOOST_TEST((listening.error().code == policy::errc::stopping));
    BOOST_TEST(context.run() == 0U);
}

BOOST_AUTO_TEST_CASE(a_unix_socket_has_its_mode_whatever_the_umask)
{
    const test_support::temporary_directory here;
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    service::task_group group(context.get_executor(), stop);
    service::web_server server(group, "unix", say_ok);
    const auto path = std::filesystem::path(here.path()) / "metrics.sock";
    const auto before = ::umask(0077);
    const auto listening = server.listen_unix(path, 0660, false);
    ::umask(before);
    BOOST_REQUIRE(listening);
    struct stat status {};
    BOOST_REQUIRE(::lstat(path.c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 0777) == 0660U);
    server.close();
    context.run();
}

BOOST_AUTO_TEST_SUITE_END()
