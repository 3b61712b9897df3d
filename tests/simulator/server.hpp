#pragma once

#include "faults.hpp"
#include "http.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include <cstdint>
#include <functional>
#include <string>

// HTTP/1.1 servers that answer as an effect says, also badly.

namespace simulator {

struct application {
    std::function<effect(request&)> arrive;
    std::function<response(const request&)> work;
    std::function<void(response&)> finish;
    // The last word on a request: status (0: none was sent) and outcome.
    std::function<void(std::uint64_t sequence, int status, const std::string& outcome)> closed;
    std::function<void()> connection_opened;
    std::function<void(bool refused)> connection_ended;  // refused: the TLS handshake failed
};

// A listening socket; port 0 takes a free one.
boost::asio::ip::tcp::acceptor listen(boost::asio::io_context& io, const std::string& host,
                                      std::uint16_t port);

// `choose` names the context, and so the certificate, of each new connection. The application and the
// acceptor must outlive the io_context's run.
void serve_https(boost::asio::ip::tcp::acceptor& acceptor, std::function<boost::asio::ssl::context&()> choose,
                 const application& served);

void serve_http(boost::asio::ip::tcp::acceptor& acceptor, const application& served);

}  // namespace simulator
