#pragma once

#include "crypto/secret.hpp"
#include "policy/dates.hpp"
#include "policy/forecast.hpp"
#include "policy/result.hpp"

#include <boost/describe/enum.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Everything known about our OAuth grant, as kept in the state directory. Its refresh token is
// worth more than any certificate: losing it costs a person's login (design 1.7).

namespace platform {

struct token_pair {
    crypto::secret access_token;   // empty: none
    crypto::secret refresh_token;  // empty if the client permits none (platform-api section 5)
    policy::instant obtained_at;
    std::optional<policy::instant> expires_at;          // of the access token, if known
    std::optional<policy::instant> refresh_expires_at;  // of the refresh token, if the server says
};

// A single-use secret (refresh token, authorization code) that was sent. Recorded before each attempt,
// so that after a crash a token that the server may have replaced is not mistaken for a fresh one.
struct presented_secret {
    std::string fingerprint;
    int attempts = 0;      // attempts whose outcome is unknown
    bool spent = false;    // the outcome is known: never sent again
    policy::instant last;  // attempt

    bool operator==(const presented_secret&) const = default;
};

// A problem that needs a person.
BOOST_DEFINE_ENUM_CLASS(login_trouble, none,
                        grant_refused,   // invalid_grant: the refresh token is no longer valid
                        client_refused,  // the OAuth client was refused; retried hourly
                        access_refused   // new access tokens got a 401, twice in a row
)

// A login in progress: what its code is redeemed with (RFC 7636).
struct pending_login {
    crypto::secret verifier;  // empty: without PKCE
    std::string state;
    policy::instant begun_at;
};

// The state of identity.publish.
struct publication {
    std::string fingerprint;  // of the access token published last
    std::optional<policy::instant> at;
    long long failures = 0;  // in total
};

struct token_record {
    token_pair tokens;
    std::optional<token_pair> previous;  // until the new pair has worked; no access token if it was refused
    bool worked = false;                 // the access token has served a call
    bool second_chance = false;          // this pair replaces one that never worked
    std::optional<policy::instant> last_refresh_at;
    std::optional<policy::instant> session_ends_at;  // if a refresh did not extend the refresh token's life
    std::string subject;     // subject of the access token, unverified; empty if the token has none
    std::string user;        // the subject's display name; empty if absent
    std::string granted_to;  // address and client of the grant: its tokens are sent nowhere else
    std::vector<presented_secret> presented;
    login_trouble trouble = login_trouble::none;
    std::string trouble_text;                      // one sentence with the remedy
    std::optional<policy::instant> trouble_since;  // when the client was last refused
    std::string refused_client;                    // fingerprint of the client that was refused
    std::string form_encoded_client;               // fingerprint of the client that RFC 6749's encoding fits
    std::optional<policy::instant> failing_since;  // when refreshes began to fail
    std::string failing_text;                      // why the last one failed
    std::optional<pending_login> pending;
    publication published;

    const presented_secret* find(std::string_view fingerprint) const;
    presented_secret& at(const std::string& fingerprint);  // created if missing; evicts the oldest
    void forget(std::string_view fingerprint);
};

// A prefix of the SHA-256: enough to tell secrets apart, too short to be one.
std::string fingerprint_of(const crypto::secret&);

// The record as text, and back. errc::disk for damaged text, errc::config for text that a newer
// version wrote; messages continue "FILE: ".
crypto::secret write_tokens(const token_record&);
[[nodiscard]] policy::result<token_record> read_tokens(std::string_view text);

// --- When to refresh, from the record alone.

// After a refresh whose response was lost, the token is sent once more: many servers allow it.
inline constexpr policy::duration second_try{2};
inline constexpr policy::duration longest_refresh_pause{600};
inline constexpr policy::duration client_pause{3600};  // until a refused client is tried again

// The minimum time between two refreshes, whatever happens to the new token.
inline constexpr policy::duration refresh_pause{30};

// identity.refresh_every less a share (at most a tenth) that is fixed per owner, so that a fleet
// does not refresh at the same moment.
policy::duration heartbeat(policy::duration refresh_every, std::string_view owner);

// Whether the refresh token's outcome is known: then it is never sent again.
bool refresh_token_spent(const token_record&);

// Attempts with the refresh token whose outcome is unknown.
int open_attempts(const token_record&);

// The next attempt while the outcome of earlier ones is unknown (open_attempts is not 0).
policy::instant next_spread_attempt(const token_record&);

// When to refresh by schedule (failure-modes S2): ahead of the access token's expiry (a tenth of its
// life, between a minute and an hour), ahead of the refresh token's, or at the heartbeat, whichever
// is first. While the outcome of attempts is unknown, they are spread over the access token's
// remaining life; once that has expired, the next is due at once (backoff decides). A refused client
// is retried hourly. None: only a person can help. for_readers: identity.publish serves hosts that
// need the next token before this one expires, so a third of its life ahead, however short it is.
std::optional<policy::instant> refresh_due(const token_record&, policy::duration heartbeat,
                                           bool for_readers = false);

// Every refresh until then, and every login that a person has to repeat, as far as the tokens' own expiry
// tells: by refresh_due, with a login server that answers. The record must have a login that still works.
std::vector<policy::forecast_entry> forecast(const token_record&, policy::duration heartbeat,
                                             policy::instant now, policy::instant until,
                                             bool for_readers = false);

// --- Port: where the text of the token record is stored. The calls block, so they run on the
// pool.

struct stored_tokens {
    crypto::secret text;
    bool in_place = true;  // false: not yet saved where they belong
    bool copied = false;   // from another machine's state directory, not taken over: never sent
};

class token_store {
public:
    virtual ~token_store() = default;

    // None if nothing was ever stored. errc::disk.
    [[nodiscard]] virtual policy::result<std::optional<stored_tokens>> load() = 0;

    // Atomic: on return the text is on stable storage and readable by us alone. errc::disk,
    // disk_full: the message says where the tokens are kept instead.
    [[nodiscard]] virtual policy::result<void> save(const crypto::secret&) = 0;

    // Called before a single-use secret is sent: the next save succeeds even if the disk fills up
    // meanwhile. errc::disk, disk_full.
    [[nodiscard]] virtual policy::result<void> make_room() = 0;
};

}  // namespace platform
