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

// The whole life of our OAuth grant: login, refresh, and how it stands.

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

// Our OAuth grant, kept alive (failure-modes S1, S2; design 1.7). What is about to be sent is on disk before
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
    // written. A person's word also skips back-offs.
    enum class asked_by { schedule, person };
    io::task<void> refresh_if_due(asked_by = asked_by::schedule);

    // When refresh_if_due has something to do; none: nothing before a login, a change or a person's word.
    io::task<std::optional<policy::instant>> refresh_due_at();

    // What is asked once the turn of an operation has come; a failure ends it before anything has changed.
    using turn_begins = std::function<policy::result<void>()>;

    // Remembers what a code that comes within ten minutes is redeemed with.
    io::task<void> begin_login(crypto::secret verifier, std::string state);

    // Exchanges the code and keeps the tokens. The code is sent once, whatever happens. A state that came
    // back with the code must be the one of begin_login(). errc::refused: the code is used or expired,
    // belongs to another login, or the tokens name another person than before and `force` was not given. Not
    // to be cancelled: it is bounded by itself.
    io::task<void> login_with_code(crypto::secret code, bool force, std::string state = {}, turn_begins = {});

    // Starts from a refresh token that somebody else obtained. A token that was sent before is not sent again
    // (known), unless forced. Not to be cancelled either.
    enum class seed { imported, known };
    io::task<seed> login_with_refresh_token(crypto::secret refresh_token, bool force, turn_begins = {});

    // Forgets the tokens, but not what was spent.
    io::task<void> logout(turn_begins = {});

    // Writes tokens that the disk has refused so far: before the program ends, until it is done.
    io::task<void> flush();

    io::task<login_status> status();

    // What becomes of the login until then.
    io::task<std::vector<policy::forecast_entry>> forecast(policy::instant until);

    // A single-use secret has been sent and its answer is awaited: a stop waits for it.
    bool exchanging() const { return sending_; }

    // The access token, if it works and identity.publish has not handed it on yet (always: or has).
    io::task<std::optional<crypto::secret>> unpublished(bool always);
    io::task<void> note_publication(const crypto::secret& token, bool done);

    // Used from the next exchange on.
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
    asked_by refreshing_for_ = asked_by::schedule;  // who started the last flight
    int refreshes_sent_ = 0;

    token_record record_;
    bool loaded_ = false;
    bool copied_ = false;          // another machine's tokens
    bool sending_ = false;         // a refresh is under way: its outcome is not unknown yet
    bool access_refused_ = false;  // the current access token was answered 401
    bool contested_ = false;       // one host refuses the current access token, another one accepts it
    bool worked_on_disk_ = false;  // record_.worked as it was saved
    std::optional<policy::failure> unsaved_;  // why the state directory lacks what the record holds
    std::chrono::steady_clock::time_point next_save_;

    // Wall and steady time when the tokens came.
    policy::instant anchor_;
    std::chrono::steady_clock::time_point anchor_steady_;

    // A refresh that failed is tried again later and later; kept in memory alone.
    int failures_ = 0;
    std::optional<policy::failure> last_failure_;
    std::chrono::steady_clock::time_point next_try_;
    std::chrono::steady_clock::time_point secret_read_;  // for a refresh, the last time
};

}  // namespace platform
