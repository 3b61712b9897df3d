#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "agent/platform/token_answer.hpp"
#include "policy/desired.hpp"

#include <optional>
#include <string>

// One POST to the token endpoint (platform-api sections 4.3, 5), and what became of the secret in it.

namespace platform {

enum class exchange_end {
    granted,
    unsent,          // it certainly did not act: not sent, or told to wait
    unknown,         // sent, but no answer that tells: the secret may be spent
    grant_refused,   // invalid_grant: the code or refresh token is worth nothing any more
    client_refused,  // the request was refused for another reason: the secret is not spent
};

struct exchange_outcome {
    exchange_end end = exchange_end::unknown;
    std::optional<token_answer> answer;  // when granted
    policy::failure failure;             // otherwise
};

class token_endpoint {
public:
    token_endpoint(io::http& http, io::clock& clock) : http_(http), clock_(clock) {}  // which outlive this

    io::awaitable<exchange_outcome> redeem_code(policy::identity_settings, crypto::secret client_secret,
                                                crypto::secret code);
    io::awaitable<exchange_outcome> refresh(policy::identity_settings, crypto::secret client_secret,
                                            crypto::secret refresh_token);

private:
    io::awaitable<exchange_outcome> post(std::string what, policy::identity_settings,
                                         crypto::secret client_secret, crypto::secret grant,
                                         crypto::secret body);

    io::http& http_;
    io::clock& clock_;
};

// Changes when the address or the OAuth client does: what was refused to another client may be granted to it.
std::string client_fingerprint(const policy::identity_settings&, const crypto::secret& client_secret);

}  // namespace platform
