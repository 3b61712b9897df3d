#pragma once

#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Where a request goes: an absolute URL taken apart (RFC 3986).

namespace io {

struct http_address {
    bool tls = true;
    std::string host;  // lower case, an IPv6 address without its brackets
    std::uint16_t port = 443;
    std::string target = "/";  // path and query, as they go into the request line

    bool operator==(const http_address&) const = default;
};

// errc::config when it is no absolute https URL (or http to loopback), or carries a user name or a fragment.
policy::result<http_address> parse_http_address(std::string_view url);

// "example.com:443", "[::1]:443": with its port always, without it when it is the scheme's own (Host header).
std::string host_and_port(std::string_view host, std::uint16_t port);
std::string host_header(const http_address&);

// "https://example.com:443": the name of the peer in sentences, and of its connections in the pool.
std::string origin(const http_address&);

// 1 to 65535 in decimal digits.
std::optional<std::uint16_t> parse_port(std::string_view);

bool is_ip_literal(std::string_view host);

// --- Parts of addresses.

// One segment of a path, or one value of a query: everything but RFC 3986's unreserved characters is escaped.
std::string escaped(std::string_view text);

// "?" and key=value pairs, or the body of an application/x-www-form-urlencoded POST without the "?".
std::string form(std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

// %XX turned back, and "+" into a blank where it stands for one. A broken escape is left as it is.
std::string unescaped(std::string_view text, bool plus_is_blank);

// "https://user@les.example.com:8443/api" -> "les.example.com:8443", for sentences.
std::string host_of(std::string_view url);

// --- Which requests go through an HTTP proxy, and which one. Pure.

struct proxy {
    std::string host;
    std::uint16_t port = 80;
    std::optional<crypto::secret>
        authorization;  // value of Proxy-Authorization, from the proxy's URL or network.proxy_auth
};

// The habits of curl and its kin, as far as the configuration is silent.
struct proxy_environment {
    std::optional<std::string> https_proxy;  // $HTTPS_PROXY, else $https_proxy
    std::optional<std::string> no_proxy;     // $NO_PROXY, else $no_proxy
};

proxy_environment read_proxy_environment();

// None: straight to the host. network.proxy goes before the environment's, and $NO_PROXY is minded in both
// cases: loopback is no exception by itself, as with curl. Plain http (loopback only) never takes a proxy.
// errc::not_connected when the proxy's own URL cannot be used.
policy::result<std::optional<proxy>> proxy_for(const http_address&,
                                               const std::optional<std::string>& configured,
                                               const proxy_environment&);

// "Basic ..." for "user:password" (RFC 7617).
crypto::secret basic_authorization(std::string_view user_and_password);

// Is the host on the list? Entries are joined by commas or blanks: "*", a host and all below it (with or
// without a leading "." or "*."), an address, a network (10.0.0.0/8), each with an optional ":port".
bool bypasses_proxy(const http_address&, std::string_view no_proxy);

}  // namespace io
