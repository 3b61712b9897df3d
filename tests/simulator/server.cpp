#include "server.hpp"

#include "text.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>

namespace simulator {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr auto token = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t request_bytes = 32 << 20;
constexpr std::size_t block_bytes = 64 << 10;
using tls_stream = beast::ssl_stream<beast::tcp_stream>;

// The only place that starts a detached task: failures are printed, not lost.
void spawn(const asio::any_io_executor& executor, asio::awaitable<void> task)
{
    asio::co_spawn(executor, std::move(task), [](const std::exception_ptr& failure) {
        if (!failure) return;
        try {
            std::rethrow_exception(failure);
        } catch (const std::exception& error) {
            std::cerr << "platform-simulator: " << error.what() << '\n';
        }
    });
}

asio::awaitable<void> sleep(std::chrono::milliseconds duration)
{
    if (duration.count() <= 0) co_return;
    asio::steady_timer timer{co_await asio::this_coro::executor, duration};
    co_await timer.async_wait(token);
}

request to_request(const http::request<http::string_body>& message)
{
    request incoming{.method = std::string{message.method_string()}, .body = message.body()};
    const std::string_view target = message.target();
    const auto question = target.find('?');
    incoming.path = target.substr(0, question);
    if (question != std::string_view::npos) incoming.query = read_form(target.substr(question + 1));
    for (const auto& field : message)
        incoming.fields.emplace_back(lower_case(field.name_string()), std::string{field.value()});
    return incoming;
}

// Serializes header and body into one string, which faults may truncate or stretch.
std::string to_wire(const response& answer, bool keep_alive, framing frame, std::size_t body_size)
{
    std::string wire =
        "HTTP/1.1 " + std::to_string(answer.status) + " " +
        std::string{http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer.status)))} +
        "\r\n";
    for (const auto& [name, value] : answer.fields)
        wire += name + ": " + value + "\r\n";
    if (frame == framing::chunked) wire += "Transfer-Encoding: chunked\r\n";
    const bool bodiless = answer.status == 204 || answer.status == 304;
    if (frame == framing::length && !bodiless)
        wire += "Content-Length: " + std::to_string(body_size) + "\r\n";
    if (!keep_alive) wire += "Connection: close\r\n";
    return wire + "\r\n";
}

std::string chunked(const std::string& body)
{
    std::string wire;
    constexpr std::size_t step = 1000;
    for (std::size_t at = 0; at < body.size(); at += step) {
        const auto piece = body.substr(at, step);
        std::array<char, 24> size{};
        std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
        wire += size.data() + piece + "\r\n";
    }
    return wire + "0\r\n\r\n";
}

// Handles the requests of one connection in sequence.
template <class Stream>
class session {
public:
    session(Stream& stream, const application& served) : stream_{stream}, served_{served} {}

    asio::awaitable<void> run()
    {
        bool open = true;
        while (open) {
            http::request_parser<http::string_body> parser;
            parser.body_limit(request_bytes);
            const auto [error, count] = co_await http::async_read(stream_, buffer_, parser, token);
            if (error) co_return;
            keep_alive_ = parser.get().keep_alive();
            open = co_await answer(to_request(parser.get()));
        }
    }

private:
    // Returns false once the connection is finished.
    asio::awaitable<bool> answer(request incoming)
    {
        const effect what = served_.arrive(incoming);
        co_await sleep(what.delay);
        response answer{.status = 503};
        if (what.late)
            spawn(co_await asio::this_coro::executor, work_later(incoming, *what.late, served_));
        else if (what.work)
            answer = served_.work(incoming);
        if (what.instead) answer = *what.instead;
        co_await sleep(what.delay_after);

        if (what.how == delivery::answer) co_return co_await send(incoming, what, std::move(answer));
        served_.closed(incoming.sequence, 0,
                       what.how == delivery::hang    ? "hung"
                       : what.how == delivery::reset ? "reset"
                                                     : "closed");
        if (what.how == delivery::hang) co_await socket().async_wait(tcp::socket::wait_read, token);
        drop(what.how == delivery::reset);
        co_return false;
    }

    static asio::awaitable<void> work_later(request incoming, std::chrono::milliseconds delay,
                                            const application& served)
    {
        co_await sleep(delay);
        served.work(incoming);
    }

    asio::awaitable<bool> send(const request& incoming, const effect& what, response answer)
    {
        served_.finish(answer);
        const bool whole = !what.truncate && what.frame != framing::until_close;
        const std::size_t size = what.huge != 0 ? what.huge : answer.body.size();
        std::string wire = to_wire(answer, keep_alive_ && whole, what.frame, size);
        if (what.truncate)
            wire += answer.body.substr(0, *what.truncate);
        else if (what.frame == framing::chunked)
            wire += chunked(answer.body);
        else if (what.huge == 0 && what.drip.count() == 0)
            wire += answer.body;
        served_.closed(incoming.sequence, answer.status, what.truncate ? "truncated" : "answered");
        const auto [error, count] = co_await asio::async_write(stream_, asio::buffer(wire), token);
        if (error || !co_await send_padding(what.huge)) co_return false;
        if (what.drip.count() > 0 && !co_await send_slowly(answer.body, what.drip)) co_return false;
        if (!whole) drop(false);
        co_return whole&& keep_alive_;
    }

    asio::awaitable<bool> send_slowly(std::string body, std::chrono::milliseconds pause)
    {
        for (const char& byte : body) {
            co_await sleep(pause);
            const auto [error, count] = co_await asio::async_write(stream_, asio::buffer(&byte, 1), token);
            if (error) co_return false;
        }
        co_return true;
    }

    asio::awaitable<bool> send_padding(std::size_t bytes)
    {
        const std::string block(std::min(bytes, block_bytes), ' ');
        while (bytes > 0) {
            const auto part = asio::buffer(block.data(), std::min(bytes, block.size()));
            const auto [error, count] = co_await asio::async_write(stream_, part, token);
            if (error) co_return false;
            bytes -= count;
        }
        co_return true;
    }

    tcp::socket& socket() { return beast::get_lowest_layer(stream_).socket(); }

    // Closes without a TLS close_notify; with a RST if `reset`.
    void drop(bool reset)
    {
        boost::system::error_code ignored;
        if (reset) socket().set_option(asio::socket_base::linger{true, 0}, ignored);
        socket().close(ignored);
    }

    Stream& stream_;
    const application& served_;
    beast::flat_buffer buffer_;
    bool keep_alive_ = true;
};

// Counts a connection while it exists, even if the io_context ends first.
class counted_connection {
public:
    explicit counted_connection(const application& served) : served_{served} { served_.connection_opened(); }
    ~counted_connection() { served_.connection_ended(refused); }
    counted_connection(const counted_connection&) = delete;
    counted_connection& operator=(const counted_connection&) = delete;

    bool refused = false;

private:
    const application& served_;
};

asio::awaitable<void> serve_https(tcp::socket socket, asio::ssl::context& context, const application& served)
{
    counted_connection counted{served};
    tls_stream stream{std::move(socket), context};
    const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::server, token);
    counted.refused = error.failed();
    if (error) co_return;
    session<tls_stream> conversation{stream, served};
    co_await conversation.run();
    if (!beast::get_lowest_layer(stream).socket().is_open()) co_return;
    beast::get_lowest_layer(stream).expires_after(std::chrono::seconds{2});
    co_await stream.async_shutdown(token);
}

asio::awaitable<void> serve_http(tcp::socket socket, const application& served)
{
    const counted_connection counted{served};
    beast::tcp_stream stream{std::move(socket)};
    session<beast::tcp_stream> conversation{stream, served};
    co_await conversation.run();
}

using welcome = std::function<asio::awaitable<void>(tcp::socket)>;

asio::awaitable<void> accept(tcp::acceptor& acceptor, welcome serve)
{
    for (;;) {
        auto [error, socket] = co_await acceptor.async_accept(token);
        if (error == asio::error::operation_aborted) co_return;
        if (error) {  // for example out of descriptors, some of which may be freed
            co_await sleep(std::chrono::milliseconds{20});
            continue;
        }
        boost::system::error_code ignored;
        socket.set_option(tcp::no_delay{true}, ignored);
        spawn(acceptor.get_executor(), serve(std::move(socket)));
    }
}

}  // namespace

tcp::acceptor listen(asio::io_context& io, const std::string& host, std::uint16_t port)
{
    tcp::acceptor acceptor{io};
    const tcp::endpoint endpoint{asio::ip::make_address(host), port};
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address{true});
    acceptor.bind(endpoint);
    acceptor.listen();
    return acceptor;
}

void serve_https(tcp::acceptor& acceptor, std::function<asio::ssl::context&()> choose,
                 const application& served)
{
    spawn(acceptor.get_executor(),
          accept(acceptor, [choose = std::move(choose), &served](tcp::socket socket) {
              return serve_https(std::move(socket), choose(), served);
          }));
}

void serve_http(tcp::acceptor& acceptor, const application& served)
{
    spawn(acceptor.get_executor(),
          accept(acceptor, [&served](tcp::socket socket) { return serve_http(std::move(socket), served); }));
}

}  // namespace simulator
