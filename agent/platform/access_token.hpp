#pragma once

#include "agent/io/awaitable.hpp"
#include "crypto/secret.hpp"

#include <string>

// Port: where bearer tokens come from: our OAuth grant, an external source, or a running daemon.

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

}  // namespace platform
