#pragma once

#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <optional>
#include <string>
#include <string_view>

// What the token endpoint answers (platform-api section 2.5), and what a token says of itself.

namespace platform {

// Claims of a JSON Web Token (RFC 7519), not verified: a hint, never a proof.
struct token_claims {
    std::optional<policy::instant> expires_at;
    std::string subject;  // empty: it does not say
};

// Empty claims for a token that is no JWT.
token_claims read_claims(const crypto::secret& token);

struct token_answer {
    crypto::secret access_token;
    crypto::secret refresh_token;               // empty: none was given
    std::optional<policy::instant> expires_at;  // none: unknown
    std::string subject;
};

// expires_in is a number or a text; 0, negative, absent or absurd: what the token itself says, or unknown
// (ecosystem 1.4). errc::bad_answer when there is no access token in it.
[[nodiscard]] policy::result<token_answer> read_token_answer(std::string_view body, policy::instant now);

}  // namespace platform
