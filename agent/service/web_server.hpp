#pragma once

#include "agent/disk/directory.hpp"
#include "agent/service/tasks.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

// A small HTTP/1.1 server for this host alone: control socket, metrics and health. Connections, requests and
// time are bounded; slow clients make room for others.

namespace service {

// A Unix socket's path in a form that fits into an address: sun_path holds 107 bytes (unix(7)), a longer path
// goes by way of its directory, held open. Use `text` while this lives.
struct socket_path {
    disk::descriptor directory;
    std::string text;
};

// errc::disk: its directory cannot be opened.
[[nodiscard]] policy::result<socket_path> reach(const std::filesystem::path&);

struct web_request {
    std::string method;
    std::string target;
    std::string body;
    std::function<bool()> is_gone;  // the client has closed its connection; while the handler runs
};

struct web_answer {
    unsigned status = 200;
    std::string type = "application/json";
    std::string body = {};
    std::string security_policy = {};  // of a page: Content-Security-Policy
};

// Its answer's body is wiped once it is sent.
using web_handler = std::function<io::awaitable<web_answer>(web_request)>;

struct web_limits {
    std::size_t waiting = 16;   // connections without a whole request: one more ends the longest-waiting
    std::size_t working = 512;  // requests that are being answered: one more is told 503
    std::size_t body_bytes = 1 << 20;
    std::chrono::seconds header_patience{2};  // until the first request's header is there
    std::chrono::seconds patience{10};        // with a client that sends no body, or no other request
};

class web_server {
public:
    // The group outlives it; so does whatever the handler needs, until the group's tasks have ended.
    web_server(task_group&, std::string name, web_handler, web_limits = {});
    ~web_server();  // as close()
    web_server(const web_server&) = delete;

    // A socket of that mode, in place of one that a dead process left. With only_us, peers must be root or
    // this user (SO_PEERCRED). errc::foreign_file: something else stands there; errc::stopping.
    policy::result<void> listen_unix(const std::filesystem::path&, unsigned mode, bool only_us);

    // An address literal or localhost. Port 0: any (see port()). errc::stopping.
    policy::result<void> listen_tcp(const std::string& host, std::uint16_t port);
    std::uint16_t port() const;

    // No more requests: what is being worked on is still answered. The socket file goes.
    void close();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

}  // namespace service
