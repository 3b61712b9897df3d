#pragma once

#include "policy/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

// The browser comes back by itself when redirect_url is a loopback address with a port (RFC 8252
// section 7.3).

namespace platform {

// The port to listen on; none: the address is no loopback one, or names no port.
std::optional<std::uint16_t> listening_port(const std::string& redirect_url);

// Waits for the browser, shows it a page that says done, and gives the request's target with its query.
// Blocks, at most ten minutes. errc::usage when the port is taken, errc::timed_out.
[[nodiscard]] policy::result<std::string> listen_for_redirect(const std::string& redirect_url);

}  // namespace platform
