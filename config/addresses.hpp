#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Hosts and URLs, as far as the configuration needs them (RFC 3986 section 3, without userinfo, query,
// fragment).

namespace config {

struct host_port {
    std::string host;  // without the brackets of an IPv6 address
    std::uint16_t port = 0;
};

struct url {
    std::string scheme;  // lower case
    std::string host;
    std::optional<std::uint16_t> port;
    std::string path;  // "" or from its first slash on
};

// `host:port` or `[v6]:port`; port 1 to 65535.
std::optional<host_port> read_host_port(std::string_view);

// The parts of a comma-separated list (Kafka's bootstrap servers). Nothing when one of them is none.
std::optional<std::vector<host_port>> read_host_ports(std::string_view);

// Nothing for whatever is not scheme://host[:port][/path]: also a user name, a query or a fragment.
std::optional<url> read_url(std::string_view);

// localhost, 127.0.0.0/8, ::1.
bool is_loopback(std::string_view host);

}  // namespace config
