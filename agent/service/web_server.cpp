#include "agent/service/web_server.hpp"

#include "agent/io/async.hpp"
#include "agent/service/socket_path.hpp"
#include "crypto/secret.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace service {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using protocol = asio::generic::stream_protocol;
using stream = beast::basic_stream<protocol>;
using acceptor = asio::basic_socket_acceptor<protocol>;

constexpr auto quiet = asio::as_tuple(asio::use_awaitable);
constexpr auto write_patience = std::chrono::seconds(3);  // less than a stop may take
constexpr std::uint32_t header_bytes = 8 << 10;
constexpr int backlog = 64;

policy::failure cannot_listen(const std::string& where, const std::string& why)
{
    return {.code = policy::errc::disk, .context = "cannot listen on " + where + ": " + why};
}

bool is_us(int socket)
{
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == ::geteuid();
}

// A socket that a dead process left goes; anything else is not ours to take away.
policy::result<void> make_room(const std::filesystem::path& path)
{
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    if (!S_ISSOCK(status.st_mode))
        return policy::failure{.code = policy::errc::foreign_file,
                               .context = path.native() + " is in the way of a socket: move it away"};
    if (::unlink(path.c_str()) != 0) return cannot_listen(path.native(), std::strerror(errno));
    return {};
}

http::response<http::string_body> response_of(web_answer answer, unsigned version, bool keep)
{
    http::response<http::string_body> response(static_cast<http::status>(answer.status), version);
    response.set(http::field::content_type, answer.type);
    response.set(http::field::cache_control, "no-store");
    response.keep_alive(keep);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    return response;
}

// What a request that cannot be read is told; none: nobody is there to hear it.
std::optional<web_answer> complaint(const error_code& error)
{
    const auto text = [](unsigned status, const char* what) {
        return web_answer{.status = status, .type = "text/plain", .body = what};
    };
    if (error == http::error::body_limit) return text(413, "too large\n");
    if (error == http::error::header_limit) return text(431, "too large\n");
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        error == beast::error::timeout || error.category() == asio::error::get_system_category())
        return std::nullopt;
    return text(400, "not HTTP\n");
}

}  // namespace

struct web_server::impl : std::enable_shared_from_this<impl> {
    impl(asio::any_io_executor e, io::stop_event& s, std::string n, web_handler h, web_limits l)
        : executor(std::move(e)),
          stop(s),
          name(std::move(n)),
          handler(std::move(h)),
          limits(l),
          listener(executor),
          room(executor)
    {
    }

    asio::any_io_executor executor;
    io::stop_event& stop;
    std::string name;
    web_handler handler;
    web_limits limits;
    acceptor listener;
    io::async_event room;  // for one more connection
    std::size_t open = 0;
    std::list<stream*> waiting;  // for a request: these may be closed at any time
    bool only_us = false;
    bool closing = false;
    std::filesystem::path file;  // of a Unix socket

    policy::result<void> start(const protocol::endpoint& at, const std::string& where,
                               std::optional<unsigned> mode);
    io::awaitable<void> accept(std::shared_ptr<impl> self);
    io::awaitable<void> serve(std::shared_ptr<impl> self, protocol::socket peer);
    io::awaitable<bool> serve_one(stream& connection, beast::flat_buffer& buffer);
    io::awaitable<bool> send(stream& connection, web_answer answer, unsigned version, bool keep);
    void close();
};

policy::result<void> web_server::impl::start(const protocol::endpoint& at, const std::string& where,
                                             std::optional<unsigned> mode)
{
    error_code error;
    listener.open(at.protocol(), error);
    if (!error && !mode) listener.set_option(asio::socket_base::reuse_address(true), error);
    // The socket file takes the mode of the socket: it is never open to others, not for a moment.
    if (!error && mode && ::fchmod(listener.native_handle(), *mode) != 0)
        error.assign(errno, boost::system::system_category());
    if (!error) listener.bind(at, error);
    if (!error) listener.listen(backlog, error);
    if (error) {
        error_code ignored;
        listener.close(ignored);
        return cannot_listen(where, error.message());
    }
    io::spawn(executor, name, accept(shared_from_this()), stop);
    return {};
}

io::awaitable<void> web_server::impl::accept(std::shared_ptr<impl> self)
{
    while (!closing) {
        while (open >= limits.connections && !closing) {
            room.reset();
            co_await room.wait();
        }
        if (closing) co_return;
        auto [error, peer] = co_await listener.async_accept(quiet);
        if (closing) co_return;
        if (error) {
            // Out of descriptors or memory: later, rather than never or in a busy loop.
            if (auto slept = co_await io::sleep_for(std::chrono::seconds(1), stop); !slept) co_return;
            continue;
        }
        if (only_us && !is_us(peer.native_handle())) continue;
        ++open;
        io::spawn(executor, name, serve(self, std::move(peer)), stop);
    }
}

io::awaitable<void> web_server::impl::serve([[maybe_unused]] std::shared_ptr<impl> self,
                                            protocol::socket peer)
{
    stream connection(std::move(peer));
    beast::flat_buffer buffer;
    while (!closing && co_await serve_one(connection, buffer)) {
    }
    error_code ignored;
    connection.socket().shutdown(asio::socket_base::shutdown_both, ignored);
    --open;
    room.set();
}

// True when the connection can take another request.
io::awaitable<bool> web_server::impl::serve_one(stream& connection, beast::flat_buffer& buffer)
{
    http::request_parser<http::string_body> parser;
    parser.body_limit(limits.body_bytes);
    parser.header_limit(header_bytes);
    connection.expires_after(limits.patience);
    const auto place = waiting.insert(waiting.end(), &connection);
    const auto [error, bytes] = co_await http::async_read(connection, buffer, parser, quiet);
    waiting.erase(place);
    if (error) {
        if (auto said = complaint(error); said && !closing)
            co_await send(connection, std::move(*said), 11, false);
        co_return false;
    }
    auto request = parser.release();
    const auto version = request.version();
    const bool keep = request.keep_alive();
    connection.expires_never();
    web_request asked{.method = std::string(request.method_string()),
                      .target = std::string(request.target()),
                      .body = std::move(request.body())};
    auto answer = co_await handler(std::move(asked));
    co_return co_await send(connection, std::move(answer), version, keep && !closing);
}

io::awaitable<bool> web_server::impl::send(stream& connection, web_answer answer, unsigned version, bool keep)
{
    auto response = response_of(std::move(answer), version, keep);
    connection.expires_after(write_patience);
    const auto [error, bytes] = co_await http::async_write(connection, response, quiet);
    crypto::wipe(response.body());
    co_return keep && !error;
}

void web_server::impl::close()
{
    if (std::exchange(closing, true)) return;
    error_code ignored;
    listener.close(ignored);
    for (auto* connection : waiting)
        connection->close();
    room.set();
    if (!file.empty()) ::unlink(file.c_str());
}

web_server::web_server(asio::any_io_executor executor, io::stop_event& stop, std::string name,
                       web_handler handler, web_limits limits)
    : impl_(std::make_shared<impl>(std::move(executor), stop, std::move(name), std::move(handler), limits))
{
}

web_server::~web_server()
{
    impl_->close();
}

policy::result<void> web_server::listen_unix(const std::filesystem::path& path, unsigned mode, bool only_us)
{
    if (auto room = make_room(path); !room) return room;
    const auto reachable = reach(path);
    if (!reachable) return reachable.error();
    impl_->only_us = only_us;
    const asio::local::stream_protocol::endpoint at(reachable->text);
    if (auto started = impl_->start(at, path.native(), mode); !started) return started;
    impl_->file = path;
    // bind() has taken the umask off
    if (::chmod(reachable->text.c_str(), mode) != 0)
        return cannot_listen(path.native(), std::strerror(errno));
    return {};
}

policy::result<void> web_server::listen_tcp(const std::string& host, std::uint16_t port)
{
    error_code error;
    const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    const auto where = host + ":" + std::to_string(port);
    if (error) return cannot_listen(where, error.message());
    return impl_->start(asio::ip::tcp::endpoint(address, port), where, std::nullopt);
}

std::uint16_t web_server::port() const
{
    const auto at = impl_->listener.local_endpoint();
    asio::ip::tcp::endpoint tcp;
    if (at.size() > tcp.capacity()) return 0;
    std::memcpy(tcp.data(), at.data(), at.size());
    return tcp.port();
}

void web_server::close()
{
    impl_->close();
}

}  // namespace service
