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

// All that is known of our OAuth grant, as it is kept in the state directory. The refresh token in it is
// worth more than any certificate: losing it costs a person's login (design 1.7).

namespace platform {

struct token_pair {
    crypto::secret access_token;   // empty: none
    crypto::secret refresh_token;  // empty: the client permits none (platform-api section 5)
    policy::instant obtained_at;
    std::optional<policy::instant> expires_at;          // of the access token, as far as it is known
    std::optional<policy::instant> refresh_expires_at;  // of the refresh token, where the server says so
};

// A single-use secret (refresh token, authorization code) that was sent. Written before each sending, so that
// after a crash nobody takes a token for fresh that the server may have replaced.
struct presented_secret {
    std::string fingerprint;
    int attempts = 0;      // sendings whose outcome is not known
    bool spent = false;    // its outcome is known: it is never sent again
    policy::instant last;  // sending

    bool operator==(const presented_secret&) const = default;
};

// What needs a person.
BOOST_DEFINE_ENUM_CLASS(login_trouble, none,
                        grant_refused,   // invalid_grant: the refresh token is worth nothing any more
                        client_refused,  // the OAuth client was refused; tried again hourly
                        access_refused   // new access tokens are answered 401, twice in a row
)

// A login that was begun: what its code is redeemed with (RFC 7636).
struct pending_login {
    crypto::secret verifier;  // empty: without PKCE
    std::string state;
    policy::instant begun_at;
};

// What became of the access token at identity.publish.
struct publication {
    std::string fingerprint;  // of the access token published last
    std::optional<policy::instant> at;
    long long failures = 0;  // ever
};

struct token_record {
    token_pair tokens;
    std::optional<token_pair> previous;  // until the new pair has worked; no access token: it was refused
    bool worked = false;                 // the access token has served a call
    bool second_chance = false;          // the pair replaces one that never worked
    std::optional<policy::instant> last_refresh_at;
    std::optional<policy::instant> session_ends_at;  // a refresh did not extend the refresh token's life
    std::string subject;     // whom the access token names, unverified; empty: it does not say
    std::string user;        // the subject's name for people; empty: it does not say
    std::string granted_to;  // address and client of the grant: its tokens are sent nowhere else
    std::vector<presented_secret> presented;
    login_trouble trouble = login_trouble::none;
    std::string trouble_text;                      // one sentence with the remedy
    std::optional<policy::instant> trouble_since;  // of the last refusal of the client
    std::string refused_client;                    // fingerprint of the client that was refused
    std::string form_encoded_client;               // fingerprint of the client that RFC 6749's form fits
    std::optional<policy::instant> failing_since;  // refreshing has failed since then
    std::string failing_text;                      // why, the last time
    std::optional<pending_login> pending;
    publication published;

    const presented_secret* find(std::string_view fingerprint) const;
    presented_secret& at(const std::string& fingerprint);  // made when it is not there; the oldest ones go
    void forget(std::string_view fingerprint);
};

// Enough of the SHA-256 to tell secrets apart, too little to be one.
std::string fingerprint_of(const crypto::secret&);

// The record as text, and back. errc::disk for a damaged text, errc::config for one that a newer version
// wrote; sentences go on from "FILE: ".
crypto::secret write_tokens(const token_record&);
[[nodiscard]] policy::result<token_record> read_tokens(std::string_view text);

// --- When to refresh: what follows from the record alone.

// After a refresh whose answer got lost, the token is sent once more: many servers allow it.
inline constexpr policy::duration second_try{2};
inline constexpr policy::duration longest_refresh_pause{600};
inline constexpr policy::duration client_pause{3600};  // a refused client is tried again

// At least this long passes between a refresh and the next one, whatever is said of the new token.
inline constexpr policy::duration refresh_pause{30};

// identity.refresh_every, less a share (at most a tenth) that is fixed for an owner: a fleet spreads by
// itself.
policy::duration heartbeat(policy::duration refresh_every, std::string_view owner);

// Its outcome is known: it is never sent again.
bool refresh_token_spent(const token_record&);

// Sendings of the refresh token whose outcome is not known.
int open_attempts(const token_record&);

// The next attempt, with attempts whose outcome is not known (open_attempts is not 0).
policy::instant next_spread_attempt(const token_record&);

// When to refresh by itself (failure-modes S2). Ahead of the access token's end (a tenth of its life, between
// a minute and an hour), of the refresh token's, or with the heartbeat, whichever is first. With attempts
// whose outcome is not known: spread over the access token's remaining life; once that has ended, at once
// (the back-off decides). A refused client is tried again hourly. None: only a person can help.
// for_readers: identity.publish hands the token to hosts that need the next one before this one ends, so a
// third of its life ahead, and however short it is.
std::optional<policy::instant> refresh_due(const token_record&, policy::duration heartbeat,
                                           bool for_readers = false);

// Every refresh until then, and every login that a person has to repeat, as far as the tokens tell their own
// end: as refresh_due says, at a login server that answers. The record has a login that is not over.
std::vector<policy::forecast_entry> forecast(const token_record&, policy::duration heartbeat,
                                             policy::instant now, policy::instant until,
                                             bool for_readers = false);

// --- Port: where the text of the token record (token_record.hpp) is kept. The calls block: they run on the
// pool.

struct stored_tokens {
    crypto::secret text;
    bool in_place = true;  // false: they are yet to be saved where they belong
    bool copied = false;   // from another machine's state directory, not taken over: never presented
};

class token_store {
public:
    virtual ~token_store() = default;

    // None: there never was one. errc::disk.
    [[nodiscard]] virtual policy::result<std::optional<stored_tokens>> load() = 0;

    // On stable storage and readable by us alone when it returns, as a whole or not at all. errc::disk,
    // disk_full: the sentence says where they are kept instead.
    [[nodiscard]] virtual policy::result<void> save(const crypto::secret&) = 0;

    // Before a single-use secret is sent: the next save succeeds even if the disk fills up meanwhile.
    // errc::disk, disk_full.
    [[nodiscard]] virtual policy::result<void> make_room() = 0;
};

}  // namespace platform
