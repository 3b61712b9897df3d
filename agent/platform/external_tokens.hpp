#pragma once

#include "agent/io/async_lock.hpp"
#include "agent/io/clock.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/login_status.hpp"
#include "agent/platform/secret_reader.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <optional>

namespace platform {

// An access token that something else keeps fresh (identity.access_token). Nothing is refreshed here: a file
// or a credential is read again when it changes, a command run again when its token is about to end, and both
// after a 401; a command at most every few seconds.
class external_tokens final : public access_tokens {
public:
    // The reader and the clock outlive this.
    external_tokens(boost::asio::any_io_executor, policy::secret_source, secret_reader&, io::clock&);

    io::task<crypto::secret> current() override;

    // The source's token, even when it is still the refused one: the call is repeated once all the same.
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;

    // Expiry as the token itself says, if it does and has been read.
    login_status status() const;

private:
    io::awaitable<bool> is_stale();
    io::task<void> read();

    policy::secret_source source_;
    secret_reader& reader_;
    io::clock& clock_;
    io::async_lock lock_;
    crypto::secret token_;
    std::optional<file_mark> mark_;
    std::optional<policy::instant> read_at_;
    std::optional<policy::instant> expires_at_;
    std::optional<policy::failure> failure_;  // of the last reading
};

}  // namespace platform
