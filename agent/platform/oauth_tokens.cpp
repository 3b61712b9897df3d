#include "agent/platform/oauth_tokens.hpp"

#include "agent/io/async.hpp"
#include "agent/platform/refresh_rule.hpp"
#include "agent/platform/token_json.hpp"
#include "policy/dates.hpp"

#include <algorithm>
#include <array>
#include <utility>

// Access tokens, the record on disk, and how things stand. The refresh: oauth_refresh.cpp, logins:
// oauth_login.cpp.

namespace platform {
namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::failure;
using policy::retry;

constexpr std::array save_pauses = {1s, 3s};  // between three tries to save an answer
constexpr policy::duration save_pause = 5s;   // later tries, at most this often

}  // namespace

oauth_tokens::oauth_tokens(oauth_world world, policy::identity_settings settings, std::string owner)
    : world_(world),
      endpoint_(world.http, world.clock),
      settings_(std::move(settings)),
      owner_(std::move(owner)),
      lock_(world.executor)
{
}

void oauth_tokens::configure(policy::identity_settings settings)
{
    settings_ = std::move(settings);
    next_try_ = {};
}

io::task<crypto::secret> oauth_tokens::current()
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    co_await tidy();
    std::optional<failure> why;
    if (wants_refresh(asked_by::schedule))
        if (auto done = co_await refresh(asked_by::schedule); !done) why = done.error();
    if (auto access = best_access()) co_return std::move(*access);
    co_return why.value_or(login_required());
}

io::task<crypto::secret> oauth_tokens::after_refusal(crypto::secret refused)
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    if (record_.tokens.access_token == refused) access_refused_ = true;
    if (record_.previous && record_.previous->access_token == refused) record_.previous->access_token = {};
    std::optional<failure> why;
    if (!current_usable())
        if (auto done = co_await refresh(asked_by::schedule); !done) why = done.error();
    if (auto access = best_access()) co_return std::move(*access);
    co_return why.value_or(login_required());
}

void oauth_tokens::accepted(const crypto::secret& token)
{
    if (token != record_.tokens.access_token) return;
    record_.worked = true;
    record_.second_chance = false;
    access_refused_ = false;
}

io::task<void> oauth_tokens::refresh_if_due(asked_by who)
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    co_await tidy();
    if (!wants_refresh(who)) co_return policy::result<void>();
    co_return co_await refresh(who);
}

io::task<std::optional<policy::instant>> oauth_tokens::refresh_due_at()
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    auto due = refresh_due(record_, heartbeat(settings_.refresh_every, owner_));
    if (due) due = std::max(*due, next_try_);
    if (unsaved_) due = due ? std::min(*due, next_save_) : next_save_;
    co_return due;
}

bool oauth_tokens::usable(const token_pair& tokens) const
{
    return !tokens.access_token.empty() && (!tokens.expires_at || world_.clock.now() < *tokens.expires_at);
}

// The access token; the one before it while the platform does not know the new one yet.
std::optional<crypto::secret> oauth_tokens::best_access() const
{
    if (current_usable()) return record_.tokens.access_token.clone();
    if (!record_.worked && record_.previous && usable(*record_.previous))
        return record_.previous->access_token.clone();
    return std::nullopt;
}

io::task<void> oauth_tokens::load()
{
    if (loaded_) co_return policy::result<void>();
    auto text = co_await io::offload(world_.pool, [this] { return world_.store.load(); });
    if (loaded_) co_return policy::result<void>();  // another call was faster
    if (!text) co_return text.error();
    if (*text) {
        auto record = read_tokens((*text)->text.view());
        if (!record) co_return record.error();
        record_ = std::move(*record);
        worked_on_disk_ = record_.worked;
        if (!(*text)->in_place)
            unsaved_ = failure{.code = errc::disk, .context = "they are not in the state directory yet"};
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
    unsaved_.reset();
    if (saved)
        worked_on_disk_ = worked;
    else
        unsaved_ = saved.error();
    next_save_ = world_.clock.now() + save_pause;
    co_return saved;
}

// Nothing single-use is sent whose answer the disk could not keep.
io::task<void> oauth_tokens::save_before_sending()
{
    auto room = co_await io::offload(world_.pool, [this] { return world_.store.make_room(); });
    if (!room) co_return room.error();
    co_return co_await save();
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
                        .at_risk = open_attempts(record_) > 0 && !sending_,
                        .unsaved = unsaved_.has_value(),
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
        status.sentence = "the tokens could not be saved: " + unsaved_->context;
    else if (soft_failure_)
        status.sentence = soft_failure_->context;
    co_return status;
}

}  // namespace platform
