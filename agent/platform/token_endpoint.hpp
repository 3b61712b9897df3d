#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "policy/desired.hpp"

#include <optional>
#include <string>
#include <string_view>

// One POST to the token endpoint (platform-api sections 4.3, 5), what it answers, and what became of the
// secret that was sent.

namespace platform {

// Claims of a JSON Web Token (RFC 7519), not verified: a hint, never a proof.
struct token_claims {
    std::optional<policy::instant> expires_at;
    std::string subject;  // empty: it does not say
    std::string user;     // the subject's name for people; empty: it does not say
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

// expires_in is a number or a text; 0, negative, absent or absurd: what the token itself says, or unknown
// (ecosystem 1.4). errc::bad_answer when there is no access token in it, or one that is too large to be kept.
[[nodiscard]] policy::result<token_answer> read_token_answer(std::string_view body, policy::instant now);

// What became of a single-use secret (failure-modes S2). Only a JSON OAuth error is a verdict.
enum class exchange_end {
    granted,
    unprocessed,     // certainly not processed: not sent, told to wait, or refused by something in between
    unknown,         // it may have been processed: no answer, or one that does not tell
    grant_refused,   // invalid_grant: the code or refresh token is worth nothing any more
    client_refused,  // the client id, its secret or the request was refused; the grant is not spent
};

struct exchange_outcome {
    exchange_end end = exchange_end::unknown;
    std::optional<token_answer> answer = {};  // when granted
    policy::failure failure = {};             // otherwise
    bool form_encoded = false;                // how the client was presented the last time
};

// How the client authenticates.
struct client_credentials {
    std::string id;
    crypto::secret secret;
    bool form_encoded = false;  // as RFC 6749 section 2.3.1 says, rather than as the reference shows it

    // The two ways differ.
    bool ambiguous() const;
    client_credentials clone() const { return {id, secret.clone(), form_encoded}; }
};

class token_endpoint {
public:
    token_endpoint(io::http& http, io::clock& clock) : http_(http), clock_(clock) {}  // which outlive this

    // A client that was refused, with an id or a secret that RFC 6749 writes differently from
    // the reference, is presented the other way once. An empty verifier: the code was asked for without PKCE.
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

// Changes when the address or the OAuth client does: what was refused to another client may be granted to it.
std::string client_fingerprint(const policy::identity_settings&, const crypto::secret& client_secret);

}  // namespace platform
