#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "agent/io/tls.hpp"
#include "agent/io/url.hpp"
#include "crypto/secret.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

// A connection to a server: how it is established (DNS, TCP, proxy, TLS), and the
// stream that Beast reads and writes. Every wait ends with beast::error::timeout
// at the deadline, or with operation_aborted when close() is called.

namespace io {

using steady_time = std::chrono::steady_clock::time_point;

// Memory is wiped before it is freed, because requests and answers contain tokens.
using wiped_buffer = boost::beast::basic_flat_buffer<crypto::wiping_allocator<char>>;

class http_connection {
public:
    explicit http_connection(boost::asio::any_io_executor);
    http_connection(http_connection&&) = delete;

    void expires_at(steady_time deadline) { tcp_.expires_at(deadline); }
    void close() noexcept { tcp_.close(); }

    // True when open and silent. A kept connection on which the peer
    // has sent anything (most likely a close) must not be reused.
    bool is_quiet();

    boost::beast::tcp_stream& tcp() noexcept { return tcp_; }
    boost::asio::ssl::stream<boost::beast::tcp_stream&>& start_tls(boost::asio::ssl::context& context)
    {
        return tls_.emplace(tcp_, context);
    }
    bool encrypted() const noexcept { return tls_.has_value(); }

    // Beast's stream requirements.
    using executor_type = boost::beast::tcp_stream::executor_type;
    executor_type get_executor() noexcept { return tcp_.get_executor(); }

    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token)
    {
        return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
            [this](auto handler, const Buffers& into) {
                if (tls_)
                    tls_->async_read_some(into, std::move(handler));
                else
                    tcp_.async_read_some(into, std::move(handler));
            },
            token, buffers);
    }

    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token)
    {
        return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
            [this](auto handler, const Buffers& from) {
                if (tls_)
                    tls_->async_write_some(from, std::move(handler));
                else
                    tcp_.async_write_some(from, std::move(handler));
            },
            token, buffers);
    }

    struct sent {
        boost::system::error_code error;
        std::size_t bytes = 0;  // 0: the peer cannot have processed anything
    };
    // Writes everything, or as much as the connection accepted.
    awaitable<sent> write(const wiped_buffer&);

private:
    boost::beast::tcp_stream tcp_;
    std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

// A connection ready for the first byte of a request: name resolved, TCP connected (the
// addresses share the time), tunnelled through the proxy if there is one (CONNECT, RFC
// 9110 section 9.3.6), TLS established and the peer verified. On failure the request
// was not sent: not_resolved, not_connected, untrusted, timed_out, stopping.
task<std::shared_ptr<http_connection>> connect(http_address to, std::optional<proxy> via, tls_trust&,
                                               steady_time deadline, stop_event&);

// --- HTTP/1.1 messages (RFC 9112) on Beast, with our additions: requests are built in memory that is wiped,
// bodies are passed to their consumer as they arrive, interim answers (1xx) are limited.

// Header and body. errc::internal for a method or header that would inject a line break.
policy::result<wiped_buffer> request_text(const http_request&, const http_address&);

wiped_buffer connect_request(const http_address& to, const proxy&);

// The outcome of waiting for an answer.
struct received {
    policy::result<http_response> response;
    bool keep_alive = false;          // the connection can be reused
    bool nothing = false;             // closed before the first byte
    boost::system::error_code error;  // of the stream, if the stream failed
};

// Called once, before a body grows beyond policy::limits::large_response_bytes.
using large_body = std::function<awaitable<void>()>;

// The final answer, complete: its body ends by its length, its last chunk, or an orderly end of the
// connection (close_notify under TLS). Failures: no_answer when the connection ends too early, bad_answer
// when it is too large, compressed or not HTTP, or the failure of request.consume.
awaitable<received> receive(http_connection&, const http_request&, large_body);

// Beast's error as a failure of the answer.
policy::failure unusable_answer(const boost::system::error_code&);

}  // namespace io
