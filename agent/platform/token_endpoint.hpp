#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "policy/desired.hpp"

#include <optional>
#include <string>
#include <string_view>

// One POST to the token endpoint (platform-api sections 4.3, 5), its response, and what became
// of the secret that was sent.

namespace platform {

// Claims of a JSON Web Token (RFC 7519), not verified: a hint, never a proof.
struct token_claims {
    std::optional<policy::instant> expires_at;
    std::string subject;  // empty if absent
    std::string user;     // the subject's display name; empty if absent
};

// Empty claims for a token that is not a JWT.
token_claims read_claims(const crypto::secret& token);

struct token_answer {
    crypto::secret access_token;
    crypto::secret refresh_token;                       // empty: none was given
    std::optional<policy::instant> expires_at;          // none: unknown
    std::optional<policy::instant> refresh_expires_at;  // none: the server does not say
    std::string subject;
    std::string user;
};

// expires_in may be a number or a string; if it is 0, negative, absent or absurd, the token's own claim
// or unknown (ecosystem 1.4). errc::bad_answer if there is no access token, or one too large to keep.
[[nodiscard]] policy::result<token_answer> read_token_answer(std::string_view body, policy::instant now);

// What became of a single-use secret (failure-modes S2). Only a JSON OAuth error is a verdict.
enum class exchange_end {
    granted,
    unprocessed,     // certainly not processed: not sent, told to wait, or refused by an intermediary
    unknown,         // it may have been processed: no response, or an inconclusive one
    grant_refused,   // invalid_grant: the code or refresh token is no longer valid
    client_refused,  // the client id, its secret or the request was refused; the grant is not spent
};

struct exchange_outcome {
    exchange_end end = exchange_end::unknown;
    std::optional<token_answer> answer = {};  // if granted
    policy::failure failure = {};             // otherwise
    bool form_encoded = false;                // how the client authenticated the last time
};

// How the client authenticates.
struct client_credentials {
    std::string id;
    crypto::secret secret;
    bool form_encoded = false;  // as in RFC 6749 section 2.3.1 rather than as the reference shows it

    // Whether the two encodings differ.
    bool ambiguous() const;
    client_credentials clone() const { return {id, secret.clone(), form_encoded}; }
};

class token_endpoint {
public:
    token_endpoint(io::http& http, io::clock& clock) : http_(http), clock_(clock) {}  // both outlive this

    // A refused client whose id or secret RFC 6749 encodes differently from the reference is tried
    // once more with the other encoding. An empty verifier: the code was requested without PKCE.
    io::awaitable<exchange_outcome> redeem_code(policy::identity_settings, client_credentials,
                                                crypto::secret code, crypto::secret verifier);
    io::awaitable<exchange_outcome> refresh(policy::identity_settings, client_credentials,
                                            crypto::secret refresh_token);

private:
    io::awaitable<exchange_outcome> exchange(std::string what, policy::identity_settings, client_credentials,
                                             crypto::secret grant, crypto::secret body);
    io::awaitable<exchange_outcome> post(std::string what, policy::identity_settings, client_credentials,
                                         crypto::secret grant, crypto::secret body);

    io::http& http_;
    io::clock& clock_;
};

// Changes with the address or the OAuth client: what one client was refused may be granted to another.
std::string client_fingerprint(const policy::identity_settings&, const crypto::secret& client_secret);

}  // namespace platform
