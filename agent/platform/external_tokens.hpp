#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/single_flight.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/secret_reader.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace platform {

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
