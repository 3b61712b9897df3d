#pragma once

#include "tests/support/tls_ca.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// A loopback server that a test scripts byte by byte, with one thread per connection.

namespace support {

class scripted_server {
public:
    // One accepted connection, as seen by the script. Calls return silently once the client has disconnected.
    class peer {
    public:
        peer(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls, int which)
            : number(which), socket_(std::move(socket))
        {
            if (tls) tls_.emplace(socket_, *tls);
        }

        // Index of this connection, from 0.
        const int number;

        // Head and body of the next request; empty if the client closed the connection.
        std::string read_request()
        {
            if (!handshake()) return {};
            boost::system::error_code error;
            const auto end = tls_ ? boost::asio::read_until(*tls_, buffer_, "\r\n\r\n", error)
                                  : boost::asio::read_until(socket_, buffer_, "\r\n\r\n", error);
            if (error) return {};
            auto text = take(end);
            const auto field = text.find("Content-Length: ");
            const std::size_t body = field == std::string::npos ? 0 : std::stoul(text.substr(field + 16));
            while (buffer_.size() < body) {
                const auto space = buffer_.prepare(4096);
                const auto got = tls_ ? tls_->read_some(space, error) : socket_.read_some(space, error);
                if (error) return {};
                buffer_.commit(got);
            }
            return text + take(body);
        }

        void write(std::string_view text)
        {
            boost::system::error_code ignored;
            const auto buffer = boost::asio::buffer(text.data(), text.size());
            tls_ ? boost::asio::write(*tls_, buffer, ignored) : boost::asio::write(socket_, buffer, ignored);
        }

        void answer(std::string_view body, std::string_view status = "200 OK", std::string_view more = {})
        {
            write("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\n" + std::string(more) + "\r\n" + std::string(body));
        }

        // Sends nothing until the client gives up.
        void hang()
        {
            char byte = 0;
            boost::system::error_code error;
            while (!error)
                socket_.read_some(boost::asio::buffer(&byte, 1), error);
        }

        // Waits for the client to close, without reading.
        void wait_closed()
        {
            pollfd waiting{socket_.native_handle(), POLLRDHUP, 0};
            ::poll(&waiting, 1, -1);
        }

        void close_cleanly()
        {
            boost::system::error_code ignored;
            // Do not wait for the client's close_notify: it may never arrive.
            socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_receive, ignored);
            if (tls_) tls_->shutdown(ignored);
            socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
        }

        bool handshake()
        {
            if (!tls_ || shaken_) return true;
            boost::system::error_code error;
            tls_->handshake(boost::asio::ssl::stream_base::server, error);
            shaken_ = !error;
            return shaken_;
        }

        // Speaks TLS from here on, as the server behind a proxy.
        void start_tls(boost::asio::ssl::context& tls) { tls_.emplace(socket_, tls); }

        std::string server_name()
        {
            const char* name = ::SSL_get_servername(tls_->native_handle(), TLSEXT_NAMETYPE_host_name);
            return name ? name : "";
        }

        boost::asio::ip::tcp::socket& socket() { return socket_; }

    private:
        std::string take(std::size_t size)
        {
            std::string text(static_cast<const char*>(buffer_.data().data()), size);
            buffer_.consume(size);
            return text;
        }

        boost::asio::ip::tcp::socket socket_;
        std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
        boost::asio::streambuf buffer_;
        bool shaken_ = false;
    };

    using script = std::function<void(peer&)>;

    explicit scripted_server(script s) : scripted_server(std::nullopt, std::move(s)) {}

    scripted_server(const std::optional<server_identity>& identity, script s)
        : script_(std::move(s)), acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0})
    {
        if (identity) tls_.emplace(boost::asio::ssl::context::tls_server), load(*tls_, *identity);
        thread_ = std::thread([this] { accept(); });
    }

    ~scripted_server()
    {
        stopping_ = true;
        ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
        thread_.join();
        {
            const std::lock_guard lock(mutex_);
            for (auto& client : peers_)
                ::shutdown(client.socket().native_handle(), SHUT_RDWR);
        }
        for (auto& thread : sessions_)
            thread.join();
    }

    static void load(boost::asio::ssl::context& tls, const server_identity& identity)
    {
        tls.use_certificate_chain(boost::asio::buffer(identity.certificate));
        tls.use_private_key(boost::asio::buffer(identity.key), boost::asio::ssl::context::pem);
    }

    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
    std::string url(const std::string& host, const std::string& path = "/") const
    {
        return (tls_ ? "https://" : "http://") + host + ":" + std::to_string(port()) + path;
    }

    int connections() const { return count_; }

private:
    void accept()
    {
        while (!stopping_) {
            boost::system::error_code error;
            auto socket = acceptor_.accept(error);
            if (error) continue;
            const std::lock_guard lock(mutex_);
            auto& client = peers_.emplace_back(std::move(socket), tls_ ? &*tls_ : nullptr, count_++);
            sessions_.emplace_back([this, &client] {
                script_(client);
                // Keep the descriptor open: its number must not be reused while `client` still refers
                // to it.
                ::shutdown(client.socket().native_handle(), SHUT_RDWR);
            });
        }
    }

    script script_;
    boost::asio::io_context context_;
    std::optional<boost::asio::ssl::context> tls_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::atomic<int> count_ = 0;
    std::atomic<bool> stopping_ = false;
    std::mutex mutex_;
    std::list<peer> peers_;
    std::vector<std::thread> sessions_;
    std::thread thread_;
};

}  // namespace support
