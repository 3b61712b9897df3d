#pragma once

#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <string>
#include <string_view>

// The browser's part of a login (platform-api section 5, step 1).

namespace platform {

// The address to open. An empty state is left out.
std::string authorize_url(const policy::identity_settings&, std::string_view state);

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

}  // namespace platform
