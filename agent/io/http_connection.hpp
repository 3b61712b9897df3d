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

// A connection to a server: how it is made (DNS, TCP, proxy, TLS), and the stream that Beast reads from and
// writes to. Every wait ends with beast::error::timeout at the deadline, or with operation_aborted when
// close() is called.

namespace io {

using steady_time = std::chrono::steady_clock::time_point;

// Its memory is wiped before it is given back: requests and answers carry tokens.
using wiped_buffer = boost::beast::basic_flat_buffer<crypto::wiping_allocator<char>>;

class http_connection {
public:
    explicit http_connection(boost::asio::any_io_executor);
    http_connection(http_connection&&) = delete;

    void expires_at(steady_time deadline) { tcp_.expires_at(deadline); }
    void close() noexcept { tcp_.close(); }

    // Open, and silent. A kept connection on which the peer has sent anything (a close, most likely) is of no
    // use any more.
    bool is_quiet();

    boost::beast::tcp_stream& tcp() noexcept { return tcp_; }
    boost::asio::ssl::stream<boost::beast::tcp_stream&>& start_tls(boost::asio::ssl::context& context)
    {
        return tls_.emplace(tcp_, context);
    }
    bool encrypted() const noexcept { return tls_.has_value(); }

    // What Beast asks of a stream.
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
        std::size_t bytes = 0;  // none: the peer cannot have understood anything
    };
    // All of it, or as much as could be handed over.
    awaitable<sent> write(const wiped_buffer&);

private:
    boost::beast::tcp_stream tcp_;
    std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

// A connection over which the first byte of a request may be sent: name resolved, TCP connected (the time is
// shared between the addresses), tunnelled through the proxy if there is one (CONNECT, RFC 9110 section
// 9.3.6), TLS done and the peer verified. A request was not sent when it fails: not_resolved, not_connected,
// untrusted, timed_out, stopping.
task<std::shared_ptr<http_connection>> connect(http_address to, std::optional<proxy> via, tls_trust&,
                                               steady_time deadline, stop_event&);

// --- HTTP/1.1 messages (RFC 9112) on Beast, and what is special about ours: requests are laid out in memory
// that is wiped, bodies go to their consumer as they come, interim answers (1xx) are bounded.

// Head and body. errc::internal for a method or a header that would break out of its line.
policy::result<wiped_buffer> request_text(const http_request&, const http_address&);

wiped_buffer connect_request(const http_address& to, const proxy&);

// How an answer arrived, or did not.
struct received {
    policy::result<http_response> response;
    bool keep_alive = false;          // the connection may carry another request
    bool nothing = false;             // the connection ended before the first byte
    boost::system::error_code error;  // of the stream, if that is what failed
};

// Called once before a body grows beyond policy::limits::large_response_bytes.
using large_body = std::function<awaitable<void>()>;

// The final answer, complete: its body ends where its length or its last chunk says, or with an orderly end
// of the connection (close_notify under TLS). no_answer when the connection ends before it does, bad_answer
// when it is too large, compressed or not HTTP, or the failure of request.consume.
awaitable<received> receive(http_connection&, const http_request&, large_body);

// What Beast's error says about the answer.
policy::failure unusable_answer(const boost::system::error_code&);

}  // namespace io
