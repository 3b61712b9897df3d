#pragma once

#include "agent/io/async_lock.hpp"
#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "agent/io/single_flight.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/login_status.hpp"
#include "agent/platform/secret_reader.hpp"
#include "agent/platform/token_endpoint.hpp"
#include "agent/platform/token_record.hpp"
#include "agent/platform/token_store.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <optional>
#include <string>

namespace platform {

// What oauth_tokens works with; all of it outlives it.
struct oauth_world {
    io::http& http;
    io::clock& clock;
    token_store& store;
    secret_reader& secrets;
    boost::asio::any_io_executor executor;  // of the loop
    boost::asio::any_io_executor pool;      // for the store
};

// Our OAuth grant, kept alive (failure-modes S1, S2; design 1.6). What is about to be sent is on disk before
// it is sent, an answer before its first use. One object in one process does this for a state directory; it
// outlives the io_context's run.
class oauth_tokens final : public access_tokens {
public:
    // owner: of the agent; spreads the heartbeat.
    oauth_tokens(oauth_world, policy::identity_settings, std::string owner);

    io::task<crypto::secret> current() override;
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;
    void accepted(const crypto::secret&) override;

    // For the loop: refreshes when it is due, by expiry or by heartbeat, and writes what could not be
    // written. A person's word also tries a refresh whose outcome is open, or a client that was refused.
    enum class asked_by { schedule, person };
    io::task<void> refresh_if_due(asked_by = asked_by::schedule);

    // When refresh_if_due has something to do; none: nothing before a login, a change or a person's word.
    io::task<std::optional<policy::instant>> refresh_due_at();

    // Exchanges the code and keeps the tokens. The code is sent once, whatever happens. errc::refused: the
    // code is used or expired, or the tokens name another person than before and `force` was not said. Not to
    // be cancelled: it is bounded by itself.
    io::task<void> login_with_code(crypto::secret code, bool force);

    // Starts from a refresh token that somebody else obtained. A token that was sent before is not sent again
    // (known), unless forced. Not to be cancelled either.
    enum class seed { imported, known };
    io::task<seed> login_with_refresh_token(crypto::secret refresh_token, bool force);

    // Forgets the tokens, but not what was spent.
    io::task<void> logout();

    // Writes tokens that the disk has refused so far: before the program ends, until it is done.
    io::task<void> flush();

    io::task<login_status> status();

    // Used from the next exchange on.
    void configure(policy::identity_settings);

private:
    io::task<void> load();
    io::task<void> save();
    io::task<void> save_before_sending();
    io::awaitable<void> keep();
    io::awaitable<void> tidy();
    io::task<crypto::secret> client_secret();

    io::task<void> refresh(asked_by);
    io::task<void> refresh_alone(asked_by);
    bool wants_refresh(asked_by) const;
    std::optional<policy::failure> obstacle(asked_by, const std::string& client) const;
    io::awaitable<exchange_outcome> present(crypto::secret refresh_token, crypto::secret client_secret);
    policy::failure note_failure(exchange_outcome, const std::string& client);
    io::task<void> settle_login(token_answer, bool force);
    void adopt(token_answer, crypto::secret refresh_token, std::optional<token_pair> previous);

    bool usable(const token_pair&) const;
    bool current_usable() const { return usable(record_.tokens) && !access_refused_; }
    std::optional<crypto::secret> best_access() const;
    policy::failure login_required() const;
    std::string grant_name() const;

    oauth_world world_;
    token_endpoint endpoint_;
    policy::identity_settings settings_;
    std::string owner_;
    io::async_lock lock_;  // one exchange and one save at a time
    io::single_flight<void> flight_;

    token_record record_;
    bool loaded_ = false;
    bool sending_ = false;         // a refresh is under way: its outcome is not unknown yet
    bool access_refused_ = false;  // the current access token was answered 401
    bool worked_on_disk_ = false;  // record_.worked as it was saved
    std::optional<policy::failure> unsaved_;  // why the state directory lacks what the record holds
    policy::instant next_save_;

    // A refresh that could not be sent is tried again later and later; kept in memory alone.
    int soft_failures_ = 0;
    std::optional<policy::failure> soft_failure_;
    policy::instant next_try_;
};

}  // namespace platform
