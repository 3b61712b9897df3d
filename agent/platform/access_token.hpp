#pragma once

#include "agent/io/awaitable.hpp"
#include "crypto/secret.hpp"
#include "policy/time.hpp"

#include <optional>
#include <string>

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

// "ok", "required", "external": the words of `status` and `token`.
constexpr const char* name_of(login_state state) noexcept
{
    switch (state) {
        case login_state::ok:
            return "ok";
        case login_state::required:
            return "required";
        case login_state::external:
            return "external";
    }
    return "";
}

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

}  // namespace platform
