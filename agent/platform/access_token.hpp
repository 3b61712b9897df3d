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

// Port: where bearer tokens come from (our OAuth grant, an external source, or a running daemon), and how the
// login stands.

namespace platform {

class access_tokens {
public:
    virtual ~access_tokens() = default;

    // The access token to use now; refreshed ahead of its expiry. errc::login_required, client_refused,
    // token_source, or what the refresh met.
    virtual io::task<crypto::secret> current() = 0;

    // `refused` was answered with 401: one refresh is shared by all that wait, and the new token is given.
    // A token newer than `refused` is given at once.
    virtual io::task<crypto::secret> after_refusal(crypto::secret refused) = 0;

    // The platform has served a call with this token.
    virtual void accepted(const crypto::secret&) {}
};

enum class login_state { ok, required, external };
BOOST_DESCRIBE_ENUM(login_state, ok, required, external)  // the words of `status` and `token`

// How the login stands, without any token.
struct login_status {
    login_state state = login_state::required;
    bool attention = false;  // something is wrong that time alone may not heal; `sentence` says what
    bool unsaved = false;    // the state directory lacks the tokens
    std::string sentence;    // what is wrong and what to do; empty: all is well
    std::string subject;     // whom the tokens name, for people; empty: unknown
    std::optional<policy::instant> access_token_expires_at;
    std::optional<policy::instant> last_refresh_at;
    std::optional<policy::instant> failing_since;  // refreshing fails
    std::optional<policy::instant> published_at;   // identity.publish
    long long publish_failures = 0;

    bool operator==(const login_status&) const = default;
};

// An access token that something else keeps fresh (identity.access_token). Nothing is refreshed here: a file
// or a credential is read again when it changes, a command run again when its token is about to end, and both
// after a 401, with back-off while the source still gives the refused token. All that wait share one reading.
class external_tokens final : public access_tokens {
public:
    // The reader and the clock outlive this. The owner spreads the readings after a refusal: all readers of
    // one store meet it at the same moment.
    external_tokens(policy::secret_source, secret_reader&, io::clock&, std::string_view owner = {});

    io::task<crypto::secret> current() override;

    // The source's token, even when it is still the refused one: the call is repeated once all the same.
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;

    // Expiry as the token itself says, if it does and has been read.
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
    std::optional<policy::failure> failure_;  // of the last reading
    std::string refused_;                     // fingerprint of the token that the source gave on and on
    std::chrono::steady_clock::time_point ask_again_at_;
    int share_;  // of a pause that this owner waits in addition, in percent
};

}  // namespace platform
