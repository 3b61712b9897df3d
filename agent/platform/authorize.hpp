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

// The browser's part of a login (platform-api section 5, step 1): the URL to open and the redirect back.

namespace platform {

// The code challenge for a verifier (RFC 7636 section 4.2, S256).
std::string challenge_of(const crypto::secret& verifier);

// The URL to open. An empty state or challenge is omitted.
std::string authorize_url(const policy::identity_settings&, std::string_view state,
                          std::string_view challenge = {});

struct redirected {
    crypto::secret code;
    std::string state;      // empty if the redirect had none
    std::string userstore;  // not used by the token endpoint
};

// Parses what a person pastes after the login: the whole redirected URL, its query, or the bare
// code. errc::refused with the identity provider's own words if it reports an error, errc::usage
// if there is no code.
[[nodiscard]] policy::result<redirected> parse_redirected(std::string_view text);

// errc::refused if the redirect has a state other than the one sent (RFC 6749 section 10.12).
[[nodiscard]] policy::result<void> check_state(const redirected&, std::string_view sent);

// Login without copy and paste: if redirect_url is a loopback address with a port, the program
// receives the redirect itself (RFC 8252 section 7.3).

// The port to listen on; none if the address is not loopback or has no port.
std::optional<std::uint16_t> listening_port(const std::string& redirect_url);

// Serves one browser request: returns its target with the query if it answers the login with
// this state, else empty. Anything else (a favicon, a probe, a page that tries to log us in as
// somebody else) gets a 404 and is ignored.
io::awaitable<std::string> serve_redirect(boost::beast::tcp_stream, std::string state);

// Waits for the redirect with this state, shows the browser a confirmation page, and returns the
// request's target with its query. Blocks for up to ten minutes. errc::usage if it cannot listen
// on the port, errc::timed_out.
[[nodiscard]] policy::result<std::string> listen_for_redirect(const std::string& redirect_url,
                                                              std::string_view state);

}  // namespace platform
