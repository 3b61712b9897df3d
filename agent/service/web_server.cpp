#include "agent/service/web_server.hpp"

#include "agent/io/async.hpp"
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
#include <fcntl.h>
#include <list>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

// Removes a socket that a dead process left; anything else is not ours to remove.
policy::result<void> make_room(const std::filesystem::path& path)
{
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return {};
    if (!S_ISSOCK(status.st_mode))
        return policy::failure{
            .code = policy::errc::foreign_file,
            .context = path.native() + " exists and is not a socket; move it out of the way or delete it"};
    if (::unlink(path.c_str()) != 0) return cannot_listen(path.native(), std::strerror(errno));
    return {};
}

// Opens the socket file at the path. errc::foreign_file: it is not the one that we created.
policy::result<disk::descriptor> own_socket(const socket_path& reachable, const std::filesystem::path& path)
{
    disk::descriptor file(::open(reachable.text.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) return cannot_listen(path.native(), std::strerror(errno));
    if (!S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid() || status.st_nlink != 1)
        return policy::failure{.code = policy::errc::foreign_file,
                               .context = path.native() + " was replaced while it was being created"};
    return file;
}

// bind() applies the umask to the socket's mode. Uses a descriptor: the file at the path may be swapped.
policy::result<void> set_mode(const socket_path& reachable, const std::filesystem::path& path, unsigned mode)
{
    const auto file = own_socket(reachable, path);
    if (!file) return file.error();
    if (::chmod(("/proc/self/fd/" + std::to_string(file->get())).c_str(), mode) != 0)
        return cannot_listen(path.native(), std::strerror(errno));
    return {};
}

// Increments the number for its lifetime.
class counted {
public:
    explicit counted(std::size_t& number) : number_(number) { ++number_; }
    ~counted() { --number_; }
    counted(const counted&) = delete;

private:
    std::size_t& number_;
};

// Keeps the stream in the list for its lifetime.
class listed {
public:
    listed(std::list<stream*>& all, stream& one) : all_(all), place_(all.insert(all.end(), &one)) {}
    ~listed() { all_.erase(place_); }
    listed(const listed&) = delete;

private:
    std::list<stream*>& all_;
    std::list<stream*>::iterator place_;
};

bool is_closed_by_peer(int socket)
{
    pollfd asked{.fd = socket, .events = 0, .revents = 0};
    return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

http::response<http::string_body> response_of(web_answer answer, unsigned version, bool keep)
{
    http::response<http::string_body> response(static_cast<http::status>(answer.status), version);
    response.set(http::field::content_type, answer.type);
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    if (!answer.security_policy.empty()) {
        response.set("Content-Security-Policy", answer.security_policy);
        response.set("Referrer-Policy", "no-referrer");
    }
    response.keep_alive(keep);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    return response;
}

// The answer to an unreadable request; nullopt: nobody is there to receive it.
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

policy::result<socket_path> reach(const std::filesystem::path& path)
{
    if (path.native().size() < sizeof(sockaddr_un::sun_path))
        return socket_path{.directory = disk::descriptor(), .text = path.native()};
    disk::descriptor directory(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory)
        return policy::failure{.code = policy::errc::disk,
                               .context = path.parent_path().native() + ": " + std::strerror(errno)};
    auto text = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + path.filename().native();
    return socket_path{.directory = std::move(directory), .text = std::move(text)};
}

struct web_server::impl : std::enable_shared_from_this<impl> {
    impl(task_group& g, std::string n, web_handler h, web_limits l)
        : group(g), name(std::move(n)), handler(std::move(h)), limits(l), listener(group.executor())
    {
    }

    task_group& group;
    std::string name;
    web_handler handler;
    web_limits limits;
    acceptor listener;
    std::list<stream*> waiting;  // for a whole request, longest wait first: may be closed at any time
    std::size_t working = 0;
    bool only_us = false;
    bool closing = false;
    std::filesystem::path file;  // of a Unix socket

    policy::result<void> start(const protocol::endpoint& at, const std::string& where,
                               std::optional<unsigned> mode);
    io::awaitable<void> accept(std::shared_ptr<impl> self);
    io::awaitable<void> serve(std::shared_ptr<impl> self, protocol::socket peer);
    io::awaitable<bool> serve_one(stream& connection, beast::flat_buffer& buffer,
                                  std::chrono::seconds patience);
    io::awaitable<web_answer> work(stream& connection, http::request<http::string_body> request);
    io::awaitable<bool> send(stream& connection, web_answer answer, unsigned version, bool keep);
    void close();
};

policy::result<void> web_server::impl::start(const protocol::endpoint& at, const std::string& where,
                                             std::optional<unsigned> mode)
{
    if (group.stopping()) return io::stopped();
    error_code error;
    listener.open(at.protocol(), error);
    if (!error && !mode) listener.set_option(asio::socket_base::reuse_address(true), error);
    // The socket file gets the mode of the socket, so that it is never open to others, not even for a moment.
    if (!error && mode && ::fchmod(listener.native_handle(), *mode) != 0)
        error.assign(errno, boost::system::system_category());
    if (!error) listener.bind(at, error);
    if (!error) listener.listen(backlog, error);
    if (error) {
        error_code ignored;
        listener.close(ignored);
        return cannot_listen(where, error.message());
    }
    group.start(name, accept(shared_from_this()));
    return {};
}

io::awaitable<void> web_server::impl::accept(std::shared_ptr<impl> self)
{
    while (!closing) {
        auto [error, peer] = co_await listener.async_accept(quiet);
        if (closing) co_return;
        if (error) {
            // Out of descriptors or memory: retry later, rather than give up or spin.
            if (auto slept = co_await io::sleep_for(std::chrono::seconds(1), group.stop()); !slept) co_return;
            continue;
        }
        if (only_us && !is_us(peer.native_handle())) continue;
        if (waiting.size() >= limits.waiting) waiting.front()->close();
        group.start(name, serve(self, std::move(peer)));
    }
}

io::awaitable<void> web_server::impl::serve([[maybe_unused]] std::shared_ptr<impl> self,
                                            protocol::socket peer)
{
    stream connection(std::move(peer));
    beast::flat_buffer buffer;
    auto patience = limits.header_patience;
    while (!closing && co_await serve_one(connection, buffer, patience))
        patience = limits.patience;
    error_code ignored;
    connection.socket().shutdown(asio::socket_base::shutdown_both, ignored);
}

// True when the connection can take another request.
io::awaitable<bool> web_server::impl::serve_one(stream& connection, beast::flat_buffer& buffer,
                                                std::chrono::seconds patience)
{
    http::request_parser<http::string_body> parser;
    parser.body_limit(limits.body_bytes);
    parser.header_limit(header_bytes);
    error_code error;
    {
        const listed here(waiting, connection);
        connection.expires_after(patience);
        const auto [no_header, header] = co_await http::async_read_header(connection, buffer, parser, quiet);
        error = no_header;
        if (!error) {
            connection.expires_after(limits.patience);
            const auto [no_body, body] = co_await http::async_read(connection, buffer, parser, quiet);
            error = no_body;
        }
    }
    if (error) {
        if (auto said = complaint(error); said && !closing)
            co_await send(connection, std::move(*said), 11, false);
        co_return false;
    }
    auto request = parser.release();
    const auto version = request.version();
    const bool keep = request.keep_alive();
    connection.expires_never();
    auto answer = co_await work(connection, std::move(request));
    co_return co_await send(connection, std::move(answer), version, keep && !closing);
}

io::awaitable<web_answer> web_server::impl::work(stream& connection, http::request<http::string_body> request)
{
    if (working >= limits.working)
        co_return web_answer{.status = 503, .type = "text/plain", .body = "too many requests at once\n"};
    const counted here(working);
    web_request asked{
        .method = std::string(request.method_string()),
        .target = std::string(request.target()),
        .body = std::move(request.body()),
        .is_gone = [fd = connection.socket().native_handle()] { return is_closed_by_peer(fd); }};
    co_return co_await handler(std::move(asked));
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
    if (!file.empty()) ::unlink(file.c_str());
}

web_server::web_server(task_group& group, std::string name, web_handler handler, web_limits limits)
    : impl_(std::make_shared<impl>(group, std::move(name), std::move(handler), limits))
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
    return set_mode(*reachable, path, mode);
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
