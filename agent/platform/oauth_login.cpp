#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/platform/oauth_tokens.hpp"
#include "agent/platform/refresh_rule.hpp"
#include "agent/platform/shown.hpp"
#include "agent/platform/token_json.hpp"
#include "policy/dates.hpp"

#include <array>
#include <utility>

// Logins, the record on disk, and how things stand. Access tokens and their refresh: oauth_tokens.cpp.

namespace platform {
namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::failure;
using policy::retry;

constexpr std::array save_pauses = {1s, 3s};  // between three tries to save an answer
constexpr policy::span save_pause = 5s;       // later tries, at most this often
constexpr int unknown_twice = 2;

failure ask_again(failure why)
{
    why.context += ": open the printed address again, for a new code";
    why.kind = retry::never;
    return why;
}

}  // namespace

io::task<void> oauth_tokens::login_with_code(crypto::secret code, bool force)
{
    const auto turn = co_await lock_.acquire();
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto print = fingerprint_of(code);
    if (record_.find(print) != nullptr)
        co_return ask_again(
            {.code = errc::refused, .context = "this code was sent before, and works only once"});
    auto secret = co_await client_secret();
    if (!secret) co_return secret.error();

    auto& mark = record_.at(print);
    mark.spent = true;
    mark.last = world_.clock.now();
    if (auto saved = co_await save(); !saved) {
        record_.forget(print);
        co_return policy::with_context("log in: nothing is sent", saved.error());
    }
    io::crash_point("login.code.saved");
    auto outcome = co_await endpoint_.redeem_code(settings_, std::move(*secret), std::move(code));
    io::crash_point("login.answer.received");
    if (outcome.end == exchange_end::granted)
        co_return co_await settle_login(std::move(*outcome.answer), force);
    if (outcome.end == exchange_end::unsent || outcome.end == exchange_end::client_refused) {
        record_.forget(print);
        co_await save();
        co_return outcome.failure;
    }
    if (outcome.end == exchange_end::grant_refused) {
        outcome.failure.code = errc::refused;
        outcome.failure.context += ": the code is used already, or has expired";
    }
    co_return ask_again(std::move(outcome.failure));
}

io::task<oauth_tokens::seed> oauth_tokens::login_with_refresh_token(crypto::secret refresh_token, bool force)
{
    const auto turn = co_await lock_.acquire();
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto print = fingerprint_of(refresh_token);
    const auto* known = record_.find(print);
    const bool in_use = refresh_token == record_.tokens.refresh_token;
    if (!force && (in_use || (known != nullptr && known->spent))) co_return seed::known;
    if (!force && known != nullptr && known->attempts >= unknown_twice)
        co_return failure{.code = errc::login_required,
                          .context =
                              "this refresh token was sent twice and no answer came: it may be spent. Use a "
                              "new one, or log in",
                          .kind = retry::never};
    auto secret = co_await client_secret();
    if (!secret) co_return secret.error();
    if (known != nullptr) record_.at(print).spent = false;

    auto outcome = co_await present(refresh_token.clone(), std::move(*secret));
    if (outcome.end != exchange_end::granted) {
        co_await save();
        co_return outcome.failure;
    }
    if (outcome.answer->refresh_token.empty()) outcome.answer->refresh_token = std::move(refresh_token);
    if (auto settled = co_await settle_login(std::move(*outcome.answer), force); !settled)
        co_return settled.error();
    co_return seed::imported;
}

io::task<void> oauth_tokens::settle_login(token_answer answer, bool force)
{
    const bool other =
        !answer.subject.empty() && !record_.subject.empty() && answer.subject != record_.subject;
    if (other && !force) {
        co_await save();  // what was sent is spent all the same
        co_return failure{.code = errc::refused,
                          .context = "this login is " + shown(answer.subject) + "'s, the tokens so far are " +
                                     shown(record_.subject) +
                                     "'s: log in as the same (service) user, or say --force",
                          .kind = retry::never};
    }
    auto next = std::move(answer.refresh_token);
    record_.subject.clear();
    adopt(std::move(answer), std::move(next), std::nullopt);
    record_.last_refresh_at.reset();
    co_await keep();
    io::crash_point("login.answer.saved");
    if (unsaved_)
        co_return failure{.code = errc::disk,
                          .context =
                              "logged in, but the tokens cannot be written: they are held in memory, and "
                              "writing is tried again"};
    co_return policy::result<void>();
}

io::task<void> oauth_tokens::logout()
{
    const auto turn = co_await lock_.acquire();
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    if (!record_.tokens.refresh_token.empty())
        record_.at(fingerprint_of(record_.tokens.refresh_token)).spent = true;
    auto spent = std::move(record_.presented);
    record_ = {};
    record_.presented = std::move(spent);
    access_refused_ = false;
    co_return co_await save();
}

io::task<void> oauth_tokens::load()
{
    if (loaded_) co_return policy::result<void>();
    auto text = co_await io::offload(world_.pool, [this] { return world_.store.load(); });
    if (loaded_) co_return policy::result<void>();  // another call was faster
    if (!text) co_return text.error();
    if (*text) {
        auto record = read_tokens((*text)->view());
        if (!record) co_return record.error();
        record_ = std::move(*record);
        worked_on_disk_ = record_.worked;
    }
    loaded_ = true;
    co_return policy::result<void>();
}

// Only under the lock: a later state must not be overtaken by an earlier one.
io::task<void> oauth_tokens::save()
{
    const auto text = write_tokens(record_);
    const bool worked = record_.worked;
    auto saved = co_await io::offload(world_.pool, [&] { return world_.store.save(text); });
    unsaved_ = !saved;
    if (saved) worked_on_disk_ = worked;
    next_save_ = world_.clock.now() + save_pause;
    co_return saved;
}

// Saves with patience. What the disk refuses stays in memory, and tidy() tries on.
io::awaitable<void> oauth_tokens::keep()
{
    auto saved = co_await save();
    for (const auto pause : save_pauses) {
        if (saved) co_return;
        co_await world_.clock.sleep_for(pause);
        saved = co_await save();
    }
}

// Writes down that the pair has worked, which ends the one before, and what could not be written.
io::awaitable<void> oauth_tokens::tidy()
{
    const auto untidy = [this] {
        return (unsaved_ && world_.clock.now() >= next_save_) || (record_.worked && !worked_on_disk_);
    };
    if (!untidy()) co_return;
    const auto turn = co_await lock_.acquire();
    if (!untidy()) co_return;
    if (record_.worked) record_.previous.reset();
    co_await save();
}

io::task<void> oauth_tokens::flush()
{
    const auto turn = co_await lock_.acquire();
    if (!unsaved_) co_return policy::result<void>();
    co_return co_await save();
}

io::task<crypto::secret> oauth_tokens::client_secret()
{
    if (!settings_.client_secret) co_return crypto::secret();
    co_return co_await world_.secrets.read(*settings_.client_secret, "identity.client_secret");
}

std::string oauth_tokens::grant_name() const
{
    return settings_.client_id + " at " + settings_.auth_url;
}

failure oauth_tokens::login_required() const
{
    failure why{.code = errc::login_required,
                .context = "there is no login: run `exposure-agent login`",
                .kind = retry::never};
    if (!record_.trouble_text.empty())
        why.context = record_.trouble_text;
    else if (open_attempts(record_) > 0)
        why.context =
            "no answer came to the last refreshes, and the access token is at its end: run "
            "`exposure-agent login`";
    else if (!record_.tokens.access_token.empty())
        why.context =
            "the access token has ended, and the login server gave no refresh token: run "
            "`exposure-agent login`";
    return why;
}

io::task<login_status> oauth_tokens::status()
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto& tokens = record_.tokens;
    login_status status{.state = login_state::ok,
                        .at_risk = open_attempts(record_) > 0,
                        .unsaved = unsaved_,
                        .sentence = {},
                        .subject = record_.subject,
                        .access_token_expires_at = tokens.expires_at,
                        .last_refresh_at = record_.last_refresh_at};
    const bool can_refresh = !tokens.refresh_token.empty();
    if (record_.trouble != login_trouble::none || (!can_refresh && !current_usable())) {
        status.state = login_state::required;
        status.sentence = login_required().context;
        co_return status;
    }
    const auto until =
        tokens.expires_at ? policy::format_utc(*tokens.expires_at) : std::string("the first 401");
    if (status.at_risk)
        status.sentence = "no answer came to the last refresh: the access token works until " + until +
                          "; run `exposure-agent reconcile` to try again, or `exposure-agent login`";
    else if (!can_refresh)
        status.sentence = "the login server gave no refresh token: log in again before " + until;
    else if (unsaved_)
        status.sentence = "the tokens cannot be written to disk: they are held in memory alone";
    else if (soft_failure_)
        status.sentence = soft_failure_->context;
    co_return status;
}

}  // namespace platform
