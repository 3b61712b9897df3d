#pragma once

#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"
#include "agent/platform/secret_reader.hpp"
#include "crypto/secret.hpp"
#include "policy/dates.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// Port: where bearer tokens come from (our OAuth grant, an external source or a running daemon),
// and the state of the login.

namespace platform {

class access_tokens {
public:
    virtual ~access_tokens() = default;

    // Returns the current access token, refreshed ahead of its expiry. errc::login_required,
    // client_refused, token_source, or the error of the refresh.
    virtual io::task<crypto::secret> current() = 0;

    // `refused` got a 401: all callers share one refresh and get the new token. If the current token
    // is already newer than `refused`, it is returned without a refresh.
    virtual io::task<crypto::secret> after_refusal(crypto::secret refused) = 0;

    // Reports that the platform served a call with this token.
    virtual void accepted(const crypto::secret&) {}
};

enum class login_state { ok, required, external };
BOOST_DESCRIBE_ENUM(login_state, ok, required, external)  // as printed by `status` and `token`

// State of the login; contains no token.
struct login_status {
    login_state state = login_state::required;
    bool attention = false;  // something is wrong that may not resolve itself; `sentence` says what
    bool unsaved = false;    // the tokens are not in the state directory yet
    std::string sentence;    // what is wrong and what to do; empty if all is well
    std::string subject;     // whom the tokens identify, for display; empty if unknown
    std::optional<policy::instant> access_token_expires_at;
    std::optional<policy::instant> last_refresh_at;
    std::optional<policy::instant> failing_since;  // when refreshes began to fail
    std::optional<policy::instant> published_at;   // when identity.publish last succeeded
    long long publish_failures = 0;

    bool operator==(const login_status&) const = default;
};

// An access token that something else keeps fresh (identity.access_token). Files and credentials are
// read again when they change, commands run again shortly before their token expires, and both after a
// 401, with backoff while the source still returns the refused token. Concurrent callers share one read.
class external_tokens final : public access_tokens {
public:
    // The reader and the clock must outlive this object. `owner` spreads the reads after a refusal,
    // because all hosts that read the same store are refused at the same moment.
    external_tokens(policy::secret_source, secret_reader&, io::clock&, std::string_view owner = {});

    io::task<crypto::secret> current() override;

    // Returns the source's token even if it is still the refused one: the call is repeated once regardless.
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;

    // The expiry is the token's own claim; unset if it has none or has not been read.
    login_status status() const;

private:
    io::awaitable<bool> is_stale();
    bool may_read() const;
    io::task<void> read();
    io::task<void> read_once();
    io::task<void> read_until_it_differs(std::string refused);

    policy::secret_source source_;
    secret_reader& reader_;
    io::clock& clock_;
    io::single_flight<void> reading_;
    io::single_flight<void> asking_again_;
    crypto::secret token_;
    std::optional<file_mark> mark_;
    std::optional<std::chrono::steady_clock::time_point> read_ended_;
    std::optional<policy::instant> read_at_;
    std::optional<policy::instant> expires_at_;
    std::optional<policy::failure> failure_;  // of the last read
    std::string refused_;                     // fingerprint of a refused token that the source keeps giving
    std::chrono::steady_clock::time_point ask_again_at_;
    int share_;  // percent added to each pause, fixed per owner
};

}  // namespace platform
