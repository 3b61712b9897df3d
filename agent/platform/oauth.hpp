#pragma once

#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/secret_reader.hpp"
#include "agent/platform/token_endpoint.hpp"
#include "agent/platform/token_record.hpp"
#include "policy/forecast.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The whole life of our OAuth grant: login, refresh and status.

namespace platform {

// What oauth_tokens depends on; all of it must outlive the object.
struct oauth_world {
    io::http& http;
    io::clock& clock;
    token_store& store;
    secret_reader& secrets;
    boost::asio::any_io_executor executor;  // of the event loop
    boost::asio::any_io_executor pool;      // for the store's blocking calls
};

// Keeps our OAuth grant alive (failure-modes S1, S2; design 1.7). A secret is recorded on disk
// before it is sent, and a response before its first use. There is one such object in one
// process per state directory; it must outlive the run of the io_context.
class oauth_tokens final : public access_tokens {
public:
    // owner: the agent's; spreads the heartbeat.
    oauth_tokens(oauth_world, policy::identity_settings, std::string owner);

    io::task<crypto::secret> current() override;
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;
    void accepted(const crypto::secret&) override;

    // For the event loop: refreshes when due, by expiry or heartbeat, and writes what could not be
    // written before. A request by a person also skips backoff.
    enum class asked_by { schedule, person };
    io::task<void> refresh_if_due(asked_by = asked_by::schedule);

    // When refresh_if_due has something to do; none: not before a login, a change or a request by a person.
    io::task<std::optional<policy::instant>> refresh_due_at();

    // Called once an operation's turn has come; a failure ends the operation before anything has changed.
    using turn_begins = std::function<policy::result<void>()>;

    // Stores what is needed to redeem a code that arrives within ten minutes.
    io::task<void> begin_login(crypto::secret verifier, std::string state);

    // Redeems the code and keeps the tokens. The code is sent only once, whatever happens. A state
    // that came back with the code must be the one given to begin_login(). errc::refused: the code
    // is used or expired or belongs to another login, or the tokens name another person than before
    // and `force` is false. Must not be cancelled: it has its own time limit.
    io::task<void> login_with_code(crypto::secret code, bool force, std::string state = {}, turn_begins = {});

    // Starts from a refresh token obtained elsewhere. One that was sent before is not sent again
    // (known) unless forced. Must not be cancelled either.
    enum class seed { imported, known };
    io::task<seed> login_with_refresh_token(crypto::secret refresh_token, bool force, turn_begins = {});

    // Forgets the tokens, but not which secrets were spent.
    io::task<void> logout(turn_begins = {});

    // Writes tokens that the disk has refused so far; repeated until it succeeds before the program ends.
    io::task<void> flush();

    io::task<login_status> status();

    // The refreshes and logins to expect until then.
    io::task<std::vector<policy::forecast_entry>> forecast(policy::instant until);

    // The response to a single-use secret is pending, or not on disk yet: shutdown waits for it.
    bool is_settling() const { return sending_ || unsaved_; }

    // The access token, if it works and identity.publish has not published it yet (always: even if it has).
    io::task<std::optional<crypto::secret>> unpublished(bool always);
    io::task<void> note_publication(const crypto::secret& token, bool done);

    // Takes effect with the next exchange.
    void configure(policy::identity_settings);

private:
    io::task<void> load();
    io::task<void> load_or_start_over();
    io::task<void> save();
    io::task<void> save_before_sending();
    io::awaitable<void> keep();
    io::awaitable<void> flush_pending();

    io::task<void> refresh(asked_by);
    io::task<void> refresh_alone(asked_by);
    io::task<void> wait_for_age();
    io::task<crypto::secret> client_secret(policy::identity_settings);
    bool publishes() const { return !settings_.publish_command.empty(); }
    bool wants_refresh(asked_by) const;
    std::optional<policy::failure> obstacle(asked_by, const policy::identity_settings&,
                                            const std::string& client) const;
    client_credentials credentials(const policy::identity_settings&, crypto::secret client_secret) const;
    io::awaitable<exchange_outcome> present(policy::identity_settings, client_credentials,
                                            crypto::secret refresh_token);
    void remember_form(const std::string& client, const exchange_outcome&);
    policy::failure note_failure(exchange_outcome, const std::string& client);
    void back_off(const policy::failure&);
    io::task<void> settle_login(policy::identity_settings, token_answer, bool force);
    void adopt(const policy::identity_settings&, token_answer, crypto::secret refresh_token,
               std::optional<token_pair> previous);

    policy::instant now() const;
    void set_anchor();
    bool usable(const token_pair&) const;
    bool current_usable() const { return usable(record_.tokens) && !access_refused_; }
    std::optional<crypto::secret> best_access() const;
    bool over() const;
    policy::failure login_required() const;
    std::string trouble_sentence() const;

    oauth_world world_;
    token_endpoint endpoint_;
    policy::identity_settings settings_;
    std::string owner_;
    io::async_lock lock_;  // one exchange and one save at a time
    io::single_flight<void> flight_;
    asked_by refreshing_for_ = asked_by::schedule;  // who started the last refresh
    int refreshes_sent_ = 0;

    token_record record_;
    bool loaded_ = false;
    bool copied_ = false;          // the tokens are another machine's
    bool sending_ = false;         // an exchange is in flight, so its outcome does not count as unknown yet
    bool access_refused_ = false;  // the current access token got a 401
    bool contested_ = false;       // one host refuses the current access token, another accepts it
    bool worked_on_disk_ = false;  // record_.worked as last saved
    std::optional<policy::failure> unsaved_;  // why the state directory lacks what the record holds
    std::chrono::steady_clock::time_point next_save_;

    // Wall and steady time when the tokens arrived.
    policy::instant anchor_;
    std::chrono::steady_clock::time_point anchor_steady_;

    // Backoff after a failed refresh; kept in memory only.
    int failures_ = 0;
    std::optional<policy::failure> last_failure_;
    std::chrono::steady_clock::time_point next_try_;
    std::chrono::steady_clock::time_point secret_read_;  // for a refresh, the last time
};

}  // namespace platform
