#include "agent/io/crash_point.hpp"
#include "agent/platform/oauth_tokens.hpp"
#include "agent/platform/shown.hpp"

#include <utility>

// Logins (failure-modes S1).

namespace platform {
namespace {

using policy::errc;
using policy::failure;
using policy::retry;

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
    if (auto saved = co_await save_before_sending(); !saved) {
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
                          .context = "logged in, but the tokens could not be saved: " + unsaved_->context +
                                     "; saving is tried again"};
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

}  // namespace platform
