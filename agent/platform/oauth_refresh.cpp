#include "agent/io/crash_point.hpp"
#include "agent/platform/oauth_tokens.hpp"
#include "agent/platform/refresh_rule.hpp"
#include "policy/dates.hpp"

#include <algorithm>
#include <utility>

// The refresh of the tokens (failure-modes S2).

namespace platform {
namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::failure;
using policy::retry;

constexpr auto second_try = 2s;               // after a refresh whose answer got lost
constexpr policy::duration first_pause = 5s;  // after a refresh that could not be sent; doubles
constexpr policy::duration longest_pause = 10min;
constexpr const char* remedy = ": run `exposure-agent login`";

}  // namespace

// One refresh for all that want one; it runs to its end even when nobody waits any more.
io::task<void> oauth_tokens::refresh(asked_by who)
{
    return flight_.run([this, who] { return refresh_alone(who); });
}

io::task<void> oauth_tokens::refresh_alone(asked_by who)
{
    const auto turn = co_await lock_.acquire();
    if (!wants_refresh(who)) co_return policy::result<void>();  // a login came first
    if (record_.tokens.refresh_token.empty()) co_return login_required();
    auto secret = co_await client_secret();
    if (!secret) co_return secret.error();
    const auto client = client_fingerprint(settings_, *secret);
    if (auto reason = obstacle(who, client)) co_return std::move(*reason);

    const bool refused = access_refused_;
    const bool never_worked = refused && !record_.worked;
    if (never_worked && record_.second_chance && who == asked_by::schedule) {
        record_.trouble = login_trouble::access_refused;
        record_.trouble_text =
            "the platform refuses (401) every new access token of this login" + std::string(remedy);
        co_await save();
        co_return login_required();
    }
    auto outcome = co_await present(record_.tokens.refresh_token.clone(), std::move(*secret));
    if (outcome.end != exchange_end::granted) {
        auto why = note_failure(std::move(outcome), client);
        co_await save();
        co_return why;
    }
    auto before = std::move(record_.tokens);
    if (refused) before.access_token = {};
    auto next = outcome.answer->refresh_token.empty() ? before.refresh_token.clone()
                                                      : std::move(outcome.answer->refresh_token);
    adopt(std::move(*outcome.answer), std::move(next), std::move(before));
    record_.second_chance = never_worked;
    record_.last_refresh_at = world_.clock.now();
    co_await keep();
    io::crash_point("token.answer.saved");
    co_return policy::result<void>();
}

bool oauth_tokens::wants_refresh(asked_by who) const
{
    if (!current_usable()) return true;
    const auto due = refresh_due(record_, heartbeat(settings_.refresh_every, owner_));
    if (due && *due <= world_.clock.now()) return true;
    return who == asked_by::person && (open_attempts(record_) > 0 || record_.trouble != login_trouble::none);
}

// Why the refresh token must not be sent now.
std::optional<failure> oauth_tokens::obstacle(asked_by who, const std::string& client) const
{
    const bool person = who == asked_by::person;
    const auto now = world_.clock.now();
    if (!record_.granted_to.empty() && record_.granted_to != grant_name())
        return failure{.code = errc::login_required,
                       .context = "the tokens were granted to another identity.auth_url or client_id" +
                                  std::string(remedy),
                       .kind = retry::never};
    if (record_.trouble == login_trouble::grant_refused || refresh_token_spent(record_))
        return login_required();
    if (record_.trouble == login_trouble::access_refused && !person) return login_required();
    if (record_.trouble == login_trouble::client_refused && client == record_.refused_client && !person)
        return failure{
            .code = errc::client_refused, .context = record_.trouble_text, .kind = retry::after_change};
    if (soft_failure_ && now < next_try_ && !person) return soft_failure_;

    const auto age = now - record_.tokens.obtained_at;
    const bool from_refresh = record_.last_refresh_at.has_value();  // a login's first token may end any time
    if (access_refused_ && from_refresh && age >= policy::duration(0) && age < refresh_pause)
        return failure{.code = errc::unauthorized,
                       .context = "the platform refuses (401) an access token that is only " +
                                  policy::format_duration(age) + " old: the next one is asked for later",
                       .retry_after = refresh_pause - age};
    if (person || open_attempts(record_) == 0) return std::nullopt;
    const auto due = refresh_due(record_, heartbeat(settings_.refresh_every, owner_));
    const bool near_the_end = (due && *due <= now) || !current_usable();
    if (near_the_end && may_try_after_refusal(record_)) return std::nullopt;
    return login_required();
}

// Sends the refresh token, once more after an answer that got lost. Each sending is on disk before it
// happens.
io::awaitable<exchange_outcome> oauth_tokens::present(crypto::secret refresh_token,
                                                      crypto::secret client_secret)
{
    const auto print = fingerprint_of(refresh_token);
    const auto* known = record_.find(print);
    const bool fresh = known == nullptr || known->attempts == 0;
    for (bool again = false;; again = true) {
        auto& mark = record_.at(print);
        ++mark.attempts;
        mark.last = world_.clock.now();
        const auto saved = co_await save_before_sending();
        exchange_outcome outcome{.end = exchange_end::unsent, .answer = std::nullopt, .failure = {}};
        if (saved) {
            io::crash_point("token.intent.saved");
            sending_ = true;
            outcome = co_await endpoint_.refresh(settings_, client_secret.clone(), refresh_token.clone());
            sending_ = false;
            io::crash_point("token.answer.received");
        } else {
            outcome.failure = policy::with_context("refresh the tokens: nothing is sent", saved.error());
        }
        if (outcome.end == exchange_end::unknown && fresh && !again &&
            (co_await world_.clock.sleep_for(second_try)))
            continue;
        if (outcome.end == exchange_end::unsent || outcome.end == exchange_end::client_refused) {
            if (--record_.at(print).attempts == 0) record_.forget(print);
        } else if (outcome.end == exchange_end::grant_refused) {
            record_.at(print).spent = true;
        } else if (outcome.end == exchange_end::granted) {
            const auto& next = outcome.answer->refresh_token;
            if (next.empty() || next == refresh_token)
                record_.forget(print);  // RFC 6749 section 6: it stays in use
            else
                record_.at(print).spent = true;
        }
        co_return outcome;
    }
}

// What a refresh that was not granted means from now on.
failure oauth_tokens::note_failure(exchange_outcome outcome, const std::string& client)
{
    auto why = std::move(outcome.failure);
    switch (outcome.end) {
        case exchange_end::grant_refused:
            why.context += remedy;
            record_.trouble = login_trouble::grant_refused;
            record_.trouble_text = why.context;
            break;
        case exchange_end::client_refused:
            record_.trouble = login_trouble::client_refused;
            record_.trouble_text = why.context;
            record_.refused_client = client;
            break;
        case exchange_end::unsent: {
            const auto pause = std::min(longest_pause, first_pause * (1 << std::min(soft_failures_++, 10)));
            next_try_ = world_.clock.now() + std::max(pause, why.retry_after.value_or(policy::duration(0)));
            soft_failure_ = why;
            break;
        }
        case exchange_end::unknown:
            why.context +=
                ". Whether the refresh token was replaced is not known: it is not sent again by itself" +
                std::string(remedy);
            break;
        case exchange_end::granted:
            break;
    }
    return why;
}

void oauth_tokens::adopt(token_answer answer, crypto::secret refresh_token,
                         std::optional<token_pair> previous)
{
    record_.tokens = {.access_token = std::move(answer.access_token),
                      .refresh_token = std::move(refresh_token),
                      .obtained_at = world_.clock.now(),
                      .expires_at = answer.expires_at};
    record_.previous = std::move(previous);
    record_.worked = false;
    record_.second_chance = false;
    record_.trouble = login_trouble::none;
    record_.trouble_text.clear();
    record_.refused_client.clear();
    record_.granted_to = grant_name();
    if (!answer.subject.empty()) record_.subject = std::move(answer.subject);
    access_refused_ = false;
    soft_failures_ = 0;
    soft_failure_.reset();
    next_try_ = {};
}

}  // namespace platform
