#pragma once

#include "faults.hpp"
#include "http.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include <cstdint>
#include <functional>
#include <string>

// HTTP/1.1 servers that respond as the effect of each request says, including malformed responses.

namespace simulator {

struct application {
    std::function<effect(request&)> arrive;
    std::function<response(const request&)> work;
    std::function<void(response&)> finish;
    // Called when a request is finished, with status (0: none sent) and outcome.
    std::function<void(std::uint64_t sequence, int status, const std::string& outcome)> closed;
    std::function<void()> connection_opened;
    std::function<void(bool refused)> connection_ended;  // refused: the TLS handshake failed
};

// Creates a listening socket; port 0 picks a free one.
boost::asio::ip::tcp::acceptor listen(boost::asio::io_context& io, const std::string& host,
                                      std::uint16_t port);

// `choose` selects the context, and thus the certificate, for each new connection. The application and the
// acceptor must outlive the run of the io_context.
void serve_https(boost::asio::ip::tcp::acceptor& acceptor, std::function<boost::asio::ssl::context&()> choose,
                 const application& served);

void serve_http(boost::asio::ip::tcp::acceptor& acceptor, const application& served);

}  // namespace simulator
