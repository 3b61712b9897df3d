#pragma once

#include "agent/io/awaitable.hpp"
#include "agent/io/stop_event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

// A small HTTP/1.1 server for this host alone: control socket, metrics and health. Connections, requests and
// time are bounded.

namespace service {

struct web_request {
    std::string method;
    std::string target;
    std::string body;
};

struct web_answer {
    unsigned status = 200;
    std::string type = "application/json";
    std::string body = {};
};

// Works on while the client is gone. Its answer's body is wiped once it is sent.
using web_handler = std::function<io::awaitable<web_answer>(web_request)>;

struct web_limits {
    std::size_t connections = 16;  // more wait until one of them ends
    std::size_t body_bytes = 1 << 20;
    std::chrono::seconds patience{10};  // with a client that does not send, or not read
};

class web_server {
public:
    // The stop outlives it; so does whatever the handler needs, until the io_context's run has ended.
    web_server(boost::asio::any_io_executor, io::stop_event&, std::string name, web_handler, web_limits = {});
    ~web_server();  // as close()
    web_server(const web_server&) = delete;

    // A socket of that mode, in place of one that a dead process left. With only_us, peers must be root or
    // this user (SO_PEERCRED). errc::foreign_file: something else stands there.
    policy::result<void> listen_unix(const std::filesystem::path&, unsigned mode, bool only_us);

    // An address literal or localhost. Port 0: any (see port()).
    policy::result<void> listen_tcp(const std::string& host, std::uint16_t port);
    std::uint16_t port() const;

    // No more requests: what is being worked on is still answered. The socket file goes.
    void close();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

}  // namespace service
