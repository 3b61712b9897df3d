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

// A small HTTP/1.1 server for this host only: control socket, metrics and health. Connections, requests and
// time are bounded; slow clients are dropped to make room for others.

namespace service {

// A Unix socket's path in a form that fits into an address: sun_path holds 107 bytes (unix(7)), so a longer
// path goes through a descriptor of its directory. `text` is valid while this object lives.
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
    std::function<bool()> is_gone;  // whether the client closed its connection; valid while the handler runs
};

struct web_answer {
    unsigned status = 200;
    std::string type = "application/json";
    std::string body = {};
    std::string security_policy = {};  // Content-Security-Policy, for a page
};

// The body of its answer is wiped once it is sent.
using web_handler = std::function<io::awaitable<web_answer>(web_request)>;

struct web_limits {
    std::size_t waiting = 16;   // connections without a whole request; one more closes the longest-waiting
    std::size_t working = 512;  // requests being answered; one more gets 503
    std::size_t body_bytes = 1 << 20;
    std::chrono::seconds header_patience{2};  // for the header of the first request
    std::chrono::seconds patience{10};        // for a client to send the body, or another request
};

class web_server {
public:
    // The group must outlive this object; what the handler needs must outlive the group's tasks.
    web_server(task_group&, std::string name, web_handler, web_limits = {});
    ~web_server();  // calls close()
    web_server(const web_server&) = delete;

    // Creates a socket with that mode, replacing one that a dead process left. With only_us, peers must be
    // root or this user (SO_PEERCRED). errc::foreign_file: something else is at the path; errc::stopping.
    policy::result<void> listen_unix(const std::filesystem::path&, unsigned mode, bool only_us);

    // An address literal or localhost. Port 0: any (see port()). errc::stopping.
    policy::result<void> listen_tcp(const std::string& host, std::uint16_t port);
    std::uint16_t port() const;

    // Accepts no more requests, still answers those in progress, and removes the socket file.
    void close();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
};

}  // namespace service
