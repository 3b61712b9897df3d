#pragma once

#include "agent/io/awaitable.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <span>
#include <memory>
#include <string>
#include <string_view>

// One TCP connection, with or without TLS on it. It speaks in error codes; what they mean for a request is
// known to its users. Every wait ends when close() is called.

namespace boost::asio::ssl {
class context;
}

namespace io {

struct transfer {
    boost::system::error_code error;
    std::size_t bytes = 0;
};

class connection {
public:
    explicit connection(boost::asio::any_io_executor);
    connection(connection&&) = delete;
    ~connection();

    awaitable<boost::system::error_code> connect(boost::asio::ip::tcp::endpoint);

    // From here on everything is encrypted. The certificate must be valid for that host name or address; SNI
    // is sent for names (RFC 6066 section 3). Can be done once.
    awaitable<boost::system::error_code> start_tls(boost::asio::ssl::context&, std::string host);

    // After a failed start_tls: why the certificate was refused, as a clause ("has expired on ..."); empty
    // when that was not the reason.
    const std::string& certificate_trouble() const noexcept;

    // All of the text, or as much as could be handed over. 0 bytes: the peer cannot have understood anything.
    awaitable<transfer> write(std::string_view);
    awaitable<transfer> read_some(std::span<char>);

    // Open, and silent: a kept connection on which the peer has said anything (a close, most likely) is of no
    // use any more.
    bool is_quiet();

    void close() noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

// True for the ways in which a peer ends a connection: end of stream, reset, TLS cut off without
// close_notify.
bool is_closed_by_peer(const boost::system::error_code&) noexcept;

}  // namespace io
