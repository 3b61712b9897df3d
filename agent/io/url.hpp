#pragma once

#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// The destination of a request: the parts of an absolute URL (RFC 3986).

namespace io {

struct http_address {
    bool tls = true;
    std::string host;  // lower case; an IPv6 address has no brackets
    std::uint16_t port = 443;
    std::string target = "/";  // path and query, as sent in the request line

    bool operator==(const http_address&) const = default;
};

// errc::config unless an absolute https URL (or http to loopback) without a user name or fragment.
policy::result<http_address> parse_http_address(std::string_view url);

// "example.com:443", "[::1]:443": always with the port; host_header omits the scheme's default port.
std::string host_and_port(std::string_view host, std::uint16_t port);
std::string host_header(const http_address&);

// "https://example.com:443": identifies the peer in messages and in the connection pool.
std::string origin(const http_address&);

// 1 to 65535 in decimal digits.
std::optional<std::uint16_t> parse_port(std::string_view);

bool is_ip_literal(std::string_view host);

// --- Parts of URLs

// One path segment or query value: escapes everything except RFC 3986's unreserved characters.
std::string escaped(std::string_view text);

// key=value pairs joined by "&": a query, or the body of an application/x-www-form-urlencoded POST.
std::string form(std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

// Decodes %XX and, if plus_is_blank, "+" as a blank. An invalid escape is left unchanged.
std::string unescaped(std::string_view text, bool plus_is_blank);

// "https://user@les.example.com:8443/api" -> "les.example.com:8443", for messages.
std::string host_of(std::string_view url);

// --- Which requests use an HTTP proxy, and which one. Pure.

struct proxy {
    std::string host;
    std::uint16_t port = 80;
    std::optional<crypto::secret>
        authorization;  // value of Proxy-Authorization, from the proxy's URL or network.proxy_auth
};

// The variables that curl reads as well, for what the configuration does not set.
struct proxy_environment {
    std::optional<std::string> https_proxy;  // $HTTPS_PROXY, else $https_proxy
    std::optional<std::string> no_proxy;     // $NO_PROXY, else $no_proxy
};

proxy_environment read_proxy_environment();

// nullopt: connect directly. network.proxy overrides the environment's proxy, and $NO_PROXY applies to both:
// as with curl, loopback is not excluded by default. Plain http (loopback only) never uses a proxy.
// errc::not_connected when the proxy's URL is unusable.
policy::result<std::optional<proxy>> proxy_for(const http_address&,
                                               const std::optional<std::string>& configured,
                                               const proxy_environment&);

// "Basic ..." for "user:password" (RFC 7617).
crypto::secret basic_authorization(std::string_view user_and_password);

// True when the list contains the host. Entries are separated by commas or blanks: "*", a host with its
// subdomains (leading "." or "*." optional), an address, a network (10.0.0.0/8); each may have a ":port".
bool bypasses_proxy(const http_address&, std::string_view no_proxy);

}  // namespace io
