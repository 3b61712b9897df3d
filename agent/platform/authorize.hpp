#pragma once

#include "agent/io/async.hpp"
#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <boost/beast/core/tcp_stream.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The browser's part of a login (platform-api section 5, step 1): the address to open, and what comes back.

namespace platform {

// What is sent of a verifier when the code is asked for (RFC 7636 section 4.2, S256).
std::string challenge_of(const crypto::secret& verifier);

// The address to open. An empty state or challenge is left out.
std::string authorize_url(const policy::identity_settings&, std::string_view state,
                          std::string_view challenge = {});

struct redirected {
    crypto::secret code;
    std::string state;      // empty: it did not come back
    std::string userstore;  // of no use to the token endpoint
};

// What a person pastes after the login: the whole redirected address, its query, or the bare code.
// errc::refused with the identity provider's own words when it reports an error, errc::usage when there is no
// code in it.
[[nodiscard]] policy::result<redirected> parse_redirected(std::string_view text);

// errc::refused when a state came back that is not the one sent (RFC 6749 section 10.12).
[[nodiscard]] policy::result<void> check_state(const redirected&, std::string_view sent);

// The browser comes back by itself when redirect_url is a loopback address with a port (RFC 8252
// section 7.3).

// The port to listen on; none: the address is not a loopback one, or names no port.
std::optional<std::uint16_t> listening_port(const std::string& redirect_url);

// One request of a browser: its target with its query when it answers the login with this state, else empty.
// Whatever else comes (a favicon, a probe, another page that wants to log us in as somebody else) is answered
// and ignored.
io::awaitable<std::string> serve_redirect(boost::beast::tcp_stream, std::string state);

// Waits for the browser that comes back with this state, shows it a page that says done, and gives the
// request's target with its query. Blocks, at most ten minutes. errc::usage when the port is taken,
// errc::timed_out.
[[nodiscard]] policy::result<std::string> listen_for_redirect(const std::string& redirect_url,
                                                              std::string_view state);

}  // namespace platform
