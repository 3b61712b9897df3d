#pragma once

#include "agent/io/url.hpp"
#include "crypto/secret.hpp"

#include <optional>
#include <string>

// Which requests go through an HTTP proxy, and which one. Pure.

namespace io {

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
