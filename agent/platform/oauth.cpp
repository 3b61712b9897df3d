#include "agent/platform/oauth.hpp"

#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/platform/response.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace platform {
namespace {

using namespace std::chrono_literals;
using policy::duration;
using policy::errc;
using policy::failure;
using policy::instant;
using policy::retry;

constexpr std::array save_pauses = {1s, 3s};  // between three attempts to save a response
constexpr auto save_pause = 5s;               // between later attempts, at least
constexpr duration first_pause = 5s;          // after a failed refresh; doubles
constexpr duration secret_poll = 30s;         // between reads of a refused client's secret
constexpr duration pending_life = 10min;      // of a login that was started
constexpr duration session_warning = 24h;     // before the end of a session that refreshes do not extend
constexpr int unknown_twice = 2;
constexpr const char* remedy = ". Run: exposure-agent login";
constexpr const char* before_then = "; before then, run: exposure-agent login";

std::string grant_name(const policy::identity_settings& settings)
{
    return settings.client_id + " at " + settings.auth_url;
}

failure ask_again(failure why)
{
    why.context += remedy;
    why.kind = retry::never;
    return why;
}

failure no_tokens_of_another_machine()
{
    return {.code = errc::login_required,
            .context =
                "this state directory was copied from another machine, whose login must not be used here. "
                "Run: exposure-agent takeover (if that machine is gone), or exposure-agent login",
            .kind = retry::never};
}

}  // namespace

// Access tokens.

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
    co_await flush_pending();
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
    if (access_refused_) contested_ = true;
    record_.worked = true;
    record_.second_chance = false;
    access_refused_ = false;
}

io::task<void> oauth_tokens::refresh_if_due(asked_by who)
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    co_await flush_pending();
    if (!wants_refresh(who)) co_return policy::result<void>();
    co_return co_await refresh(who);
}

io::task<std::optional<instant>> oauth_tokens::refresh_due_at()
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto wall = world_.clock.now();
    const auto steady = world_.clock.steady();
    const auto in_wall_time = [&](std::chrono::steady_clock::time_point at) {
        return wall + std::chrono::ceil<duration>(std::max(at - steady, at - at));
    };
    auto due = copied_ ? std::nullopt
                       : refresh_due(record_, heartbeat(settings_.refresh_every, owner_), publishes());
    if (due) due = wall + (*due - now());
    if (due && last_failure_) due = std::max(*due, in_wall_time(next_try_));
    if (due && record_.trouble == login_trouble::client_refused)
        due = std::min(*due, in_wall_time(secret_read_ + secret_poll));
    if (unsaved_) due = std::min(due.value_or(instant::max()), in_wall_time(next_save_));
    co_return due;
}

// The wall clock, but never going backwards: what is due stays due when the clock is set back.
instant oauth_tokens::now() const
{
    const auto passed = std::chrono::floor<duration>(world_.clock.steady() - anchor_steady_);
    return std::max(world_.clock.now(), anchor_ + passed);
}

void oauth_tokens::set_anchor()
{
    anchor_ = world_.clock.now();
    anchor_steady_ = world_.clock.steady();
}

bool oauth_tokens::usable(const token_pair& tokens) const
{
    return !tokens.access_token.empty() && (!tokens.expires_at || now() < *tokens.expires_at);
}

// The access token, or the previous one while the platform does not accept the new one yet.
std::optional<crypto::secret> oauth_tokens::best_access() const
{
    if (current_usable()) return record_.tokens.access_token.clone();
    if (!record_.worked && record_.previous && usable(*record_.previous))
        return record_.previous->access_token.clone();
    return std::nullopt;
}

// The record.

io::task<void> oauth_tokens::load()
{
    if (loaded_) co_return policy::result<void>();
    auto text = co_await io::offload(world_.pool, [this] { return world_.store.load(); });
    if (loaded_) co_return policy::result<void>();  // a concurrent call loaded it
    if (!text) co_return text.error();
    if (*text) {
        auto record = read_tokens((*text)->text.view());
        if (!record) co_return record.error();
        record_ = std::move(*record);
        copied_ = (*text)->copied;
        set_anchor();
        worked_on_disk_ = record_.worked;
        if (!(*text)->in_place)
            unsaved_ = failure{.code = errc::disk, .context = "they are not in the state directory yet"};
    }
    loaded_ = true;
    co_return policy::result<void>();
}

// A login replaces an unreadable record, but not one that a newer version wrote.
io::task<void> oauth_tokens::load_or_start_over()
{
    auto loaded = co_await load();
    if (loaded || loaded.error().code != errc::disk) co_return loaded;
    loaded_ = true;
    co_return policy::result<void>();
}

// Called with the lock held, so that an earlier state never overwrites a later one.
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
    next_save_ = world_.clock.steady() + save_pause;
    co_return saved;
}

// Nothing single-use is sent unless the disk has room for the response.
io::task<void> oauth_tokens::save_before_sending()
{
    auto room = co_await io::offload(world_.pool, [this] { return world_.store.make_room(); });
    if (!room) co_return room.error();
    co_return co_await save();
}

// Saves with retries. What the disk refuses stays in memory for flush_pending().
io::awaitable<void> oauth_tokens::keep()
{
    auto saved = co_await save();
    for (const auto pause : save_pauses) {
        if (saved) co_return;
        co_await world_.clock.sleep_for(pause);
        saved = co_await save();
    }
}

// Saves what could not be written, and drops the previous pair once the new one has worked.
io::awaitable<void> oauth_tokens::flush_pending()
{
    const auto untidy = [this] {
        return (unsaved_ && world_.clock.steady() >= next_save_) || (record_.worked && !worked_on_disk_);
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

// The refresh (failure-modes S2).

// One refresh for all callers; it completes even if nobody waits for it any more. A person who
// joined a scheduled refresh that was held back gets one of their own.
io::task<void> oauth_tokens::refresh(asked_by who)
{
    const auto sent = refreshes_sent_;
    const auto start = [this, who] {
        refreshing_for_ = who;
        return refresh_alone(who);
    };
    auto done = co_await flight_.run(start);
    const bool joined = who == asked_by::person && refreshing_for_ == asked_by::schedule;
    if (done || !joined || refreshes_sent_ != sent) co_return done;
    co_return co_await flight_.run(start);
}

io::task<crypto::secret> oauth_tokens::client_secret(policy::identity_settings settings)
{
    if (!settings.client_secret) co_return crypto::secret();
    co_return co_await world_.secrets.read(*settings.client_secret, "identity.client_secret");
}

client_credentials oauth_tokens::credentials(const policy::identity_settings& settings,
                                             crypto::secret client_secret) const
{
    const bool encoded = record_.form_encoded_client == client_fingerprint(settings, client_secret);
    return {.id = settings.client_id, .secret = std::move(client_secret), .form_encoded = encoded};
}

void oauth_tokens::remember_form(const std::string& client, const exchange_outcome& outcome)
{
    if (outcome.end == exchange_end::granted || outcome.end == exchange_end::grant_refused)
        record_.form_encoded_client = outcome.form_encoded ? client : std::string();
}

// A new token that is refused at once may not have reached every server yet, or clocks differ:
// the next refresh waits until the token is half a minute old.
io::task<void> oauth_tokens::wait_for_age()
{
    const auto age = world_.clock.now() - record_.tokens.obtained_at;
    const bool young = record_.last_refresh_at && age >= duration(0) && age < refresh_pause;
    if (!access_refused_ || !young || refresh_token_spent(record_)) co_return policy::result<void>();
    const failure refused{.code = errc::unauthorized,
                          .context = "the platform refuses (401) an access token that is only " +
                                     policy::format_duration(age) + " old",
                          .retry_after = refresh_pause - age};
    if (contested_ || best_access()) co_return refused;
    if (auto slept = co_await world_.clock.sleep_for(refresh_pause - age); !slept) co_return slept.error();
    if (contested_) co_return refused;
    co_return policy::result<void>();
}

io::task<void> oauth_tokens::refresh_alone(asked_by who)
{
    if (auto waited = co_await wait_for_age(); !waited) co_return waited.error();
    const auto turn = co_await lock_.acquire();
    const auto settings = settings_;  // an edit meanwhile must not send these tokens to another address
    if (!wants_refresh(who)) co_return policy::result<void>();  // a login came first
    if (record_.tokens.refresh_token.empty()) co_return login_required();
    if (copied_) co_return no_tokens_of_another_machine();
    secret_read_ = world_.clock.steady();
    auto secret = co_await client_secret(settings);
    if (!secret) co_return secret.error();
    const auto client = client_fingerprint(settings, *secret);
    if (auto reason = obstacle(who, settings, client)) co_return std::move(*reason);

    const bool refused = access_refused_;
    const bool never_worked = refused && !record_.worked;
    if (never_worked && record_.second_chance && who == asked_by::schedule) {
        record_.trouble = login_trouble::access_refused;
        record_.trouble_text =
            "the platform refuses (401) every new access token of this login" + std::string(remedy);
        co_await save();
        co_return login_required();
    }
    auto as_client = credentials(settings, std::move(*secret));
    ++refreshes_sent_;
    auto outcome = co_await present(settings, std::move(as_client), record_.tokens.refresh_token.clone());
    if (outcome.end != exchange_end::granted) {
        auto why = note_failure(std::move(outcome), client);
        co_await save();
        co_return why;
    }
    auto before = std::move(record_.tokens);
    if (refused) before.access_token = {};
    auto next = outcome.answer->refresh_token.empty() ? before.refresh_token.clone()
                                                      : std::move(outcome.answer->refresh_token);
    const auto refresh_end = before.refresh_expires_at;
    const auto obtained_at = before.obtained_at;
    adopt(settings, std::move(*outcome.answer), std::move(next), std::move(before));
    const auto& fresh = record_.tokens;
    const auto passed = fresh.obtained_at - obtained_at;
    if (refresh_end && fresh.refresh_expires_at && *fresh.refresh_expires_at < *refresh_end + passed / 2)
        record_.session_ends_at = fresh.refresh_expires_at;
    record_.second_chance = never_worked;
    record_.last_refresh_at = world_.clock.now();
    co_await keep();
    io::crash_point("token.answer.saved");
    co_return policy::result<void>();
}

bool oauth_tokens::wants_refresh(asked_by who) const
{
    if (!current_usable() || record_.trouble == login_trouble::client_refused) return true;
    const auto due = refresh_due(record_, heartbeat(settings_.refresh_every, owner_), publishes());
    if (due && *due <= now()) return true;
    return who == asked_by::person && (open_attempts(record_) > 0 || record_.trouble != login_trouble::none);
}

// Why the refresh token must not be sent now; none if it may be.
std::optional<failure> oauth_tokens::obstacle(asked_by who, const policy::identity_settings& settings,
                                              const std::string& client) const
{
    const bool person = who == asked_by::person;
    if (!record_.granted_to.empty() && record_.granted_to != grant_name(settings)) return login_required();
    if (record_.trouble == login_trouble::grant_refused || refresh_token_spent(record_))
        return login_required();
    if (record_.trouble == login_trouble::access_refused && !person) return login_required();
    const bool same_client =
        record_.trouble == login_trouble::client_refused && client == record_.refused_client;
    if (same_client && !person && now() < record_.trouble_since.value_or(instant()) + client_pause)
        return failure{
            .code = errc::client_refused, .context = record_.trouble_text, .kind = retry::after_change};
    const bool other_client = record_.trouble == login_trouble::client_refused && !same_client;
    if (last_failure_ && world_.clock.steady() < next_try_ && !person && !other_client) return last_failure_;
    if (person || open_attempts(record_) == 0 || !current_usable()) return std::nullopt;
    if (next_spread_attempt(record_) <= now()) return std::nullopt;
    return last_failure_.value_or(failure{.code = errc::no_answer, .context = record_.failing_text});
}

// Sends the refresh token, and once more if the response was lost. Each attempt is on disk
// before it is made.
io::awaitable<exchange_outcome> oauth_tokens::present(policy::identity_settings settings,
                                                      client_credentials client, crypto::secret refresh_token)
{
    const auto print = fingerprint_of(refresh_token);
    const auto* known = record_.find(print);
    const bool fresh = known == nullptr || known->attempts == 0;
    for (bool again = false;; again = true) {
        auto& mark = record_.at(print);
        ++mark.attempts;
        mark.last = now();
        const auto saved = co_await save_before_sending();
        exchange_outcome outcome{.end = exchange_end::unprocessed};
        if (saved) {
            io::crash_point("token.intent.saved");
            sending_ = true;
            outcome = co_await endpoint_.refresh(settings, client.clone(), refresh_token.clone());
            sending_ = false;
            remember_form(client_fingerprint(settings, client.secret), outcome);
            io::crash_point("token.answer.received");
        } else {
            outcome.failure = policy::with_context("refresh the access token: not sent", saved.error());
        }
        if (outcome.end == exchange_end::unknown && fresh && !again &&
            (co_await world_.clock.sleep_for(second_try)))
            continue;
        if (outcome.end == exchange_end::unprocessed || outcome.end == exchange_end::client_refused) {
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

// Records what a refresh that was not granted means from now on.
failure oauth_tokens::note_failure(exchange_outcome outcome, const std::string& client)
{
    auto why = std::move(outcome.failure);
    const auto now = world_.clock.now();
    if (!record_.failing_since) record_.failing_since = now;
    switch (outcome.end) {
        case exchange_end::grant_refused:
            why.context +=
                "; the refresh token is expired, revoked or was used elsewhere" + std::string(remedy);
            record_.trouble = login_trouble::grant_refused;
            record_.trouble_text = why.context;
            break;
        case exchange_end::client_refused:
            record_.trouble = login_trouble::client_refused;
            record_.trouble_text = why.context;
            record_.trouble_since = now;
            record_.refused_client = client;
            break;
        case exchange_end::unprocessed:
        case exchange_end::unknown:
            record_.trouble = login_trouble::none;
            break;
        case exchange_end::granted:
            break;
    }
    record_.failing_text = why.context;
    back_off(why);
    return why;
}

void oauth_tokens::back_off(const failure& why)
{
    const auto pause = std::min(longest_refresh_pause, first_pause * (1 << std::min(failures_++, 10)));
    next_try_ = world_.clock.steady() + std::max(pause, why.retry_after.value_or(duration(0)));
    last_failure_ = why;
}

void oauth_tokens::adopt(const policy::identity_settings& settings, token_answer answer,
                         crypto::secret refresh_token, std::optional<token_pair> previous)
{
    record_.tokens = {.access_token = std::move(answer.access_token),
                      .refresh_token = std::move(refresh_token),
                      .obtained_at = world_.clock.now(),
                      .expires_at = answer.expires_at,
                      .refresh_expires_at = answer.refresh_expires_at};
    record_.previous = std::move(previous);
    record_.worked = false;
    record_.second_chance = false;
    record_.session_ends_at.reset();
    record_.trouble = login_trouble::none;
    record_.trouble_text.clear();
    record_.trouble_since.reset();
    record_.refused_client.clear();
    record_.failing_since.reset();
    record_.failing_text.clear();
    record_.granted_to = grant_name(settings);
    if (!answer.subject.empty()) record_.subject = std::move(answer.subject);
    if (!answer.user.empty()) record_.user = std::move(answer.user);
    set_anchor();
    access_refused_ = false;
    contested_ = false;
    failures_ = 0;
    last_failure_.reset();
    next_try_ = {};
}

// Logins (failure-modes S1).

io::task<void> oauth_tokens::begin_login(crypto::secret verifier, std::string state)
{
    const auto turn = co_await lock_.acquire();
    if (auto loaded = co_await load_or_start_over(); !loaded) co_return loaded.error();
    record_.pending = pending_login{
        .verifier = std::move(verifier), .state = std::move(state), .begun_at = world_.clock.now()};
    co_return co_await save();
}

io::task<void> oauth_tokens::login_with_code(crypto::secret code, bool force, std::string state,
                                             turn_begins begin)
{
    const auto turn = co_await lock_.acquire();
    if (const auto begun = begin ? begin() : policy::result<void>(); !begun) co_return begun.error();
    const auto settings = settings_;
    if (auto loaded = co_await load_or_start_over(); !loaded) co_return loaded.error();
    if (record_.pending && world_.clock.now() - record_.pending->begun_at > pending_life)
        record_.pending.reset();
    if (!state.empty() && record_.pending && record_.pending->state != state)
        co_return ask_again(
            {.code = errc::refused,
             .context = "the redirected address belongs to another login (its state does not match)"});
    const auto print = fingerprint_of(code);
    if (record_.find(print) != nullptr)
        co_return ask_again(
            {.code = errc::refused, .context = "this code has already been used and works only once"});
    auto secret = co_await client_secret(settings);
    if (!secret) co_return secret.error();

    auto& mark = record_.at(print);
    mark.spent = true;
    mark.last = world_.clock.now();
    if (auto saved = co_await save_before_sending(); !saved) {
        record_.forget(print);
        co_return policy::with_context("log in: not sent", saved.error());
    }
    io::crash_point("login.code.saved");
    const auto fingerprint = client_fingerprint(settings, *secret);
    auto client = credentials(settings, std::move(*secret));
    const auto verifier = record_.pending ? record_.pending->verifier.clone() : crypto::secret();
    sending_ = true;
    auto outcome =
        co_await endpoint_.redeem_code(settings, std::move(client), std::move(code), verifier.clone());
    sending_ = false;
    remember_form(fingerprint, outcome);
    io::crash_point("login.answer.received");
    if (outcome.end == exchange_end::granted)
        co_return co_await settle_login(settings, std::move(*outcome.answer), force);
    if (outcome.end == exchange_end::unprocessed || outcome.end == exchange_end::client_refused) {
        record_.forget(print);
        co_await save();
        co_return outcome.failure;
    }
    if (outcome.end == exchange_end::grant_refused) {
        outcome.failure.code = errc::refused;
        outcome.failure.context += "; the code has expired or was already used";
    }
    co_return ask_again(std::move(outcome.failure));
}

io::task<oauth_tokens::seed> oauth_tokens::login_with_refresh_token(crypto::secret refresh_token, bool force,
                                                                    turn_begins begin)
{
    const auto turn = co_await lock_.acquire();
    if (const auto begun = begin ? begin() : policy::result<void>(); !begun) co_return begun.error();
    const auto settings = settings_;
    if (auto loaded = co_await load_or_start_over(); !loaded) co_return loaded.error();
    const auto print = fingerprint_of(refresh_token);
    const auto* known = record_.find(print);
    const bool in_use = refresh_token == record_.tokens.refresh_token;
    if (!force && (in_use || (known != nullptr && known->spent))) co_return seed::known;
    if (!force && known != nullptr && known->attempts >= unknown_twice)
        co_return failure{
            .code = errc::login_required,
            .context =
                "this refresh token was sent twice without a response and may already have been "
                "used. Use a new one, or run: exposure-agent login",
            .kind = retry::never};
    auto secret = co_await client_secret(settings);
    if (!secret) co_return secret.error();
    if (known != nullptr) record_.at(print).spent = false;

    auto client = credentials(settings, std::move(*secret));
    auto outcome = co_await present(settings, std::move(client), refresh_token.clone());
    if (outcome.end == exchange_end::grant_refused)
        outcome.failure.context += "; the refresh token is expired or already used";
    if (outcome.end != exchange_end::granted) {
        co_await save();
        co_return outcome.failure;
    }
    if (outcome.answer->refresh_token.empty()) outcome.answer->refresh_token = std::move(refresh_token);
    if (auto settled = co_await settle_login(settings, std::move(*outcome.answer), force); !settled)
        co_return settled.error();
    co_return seed::imported;
}

io::task<void> oauth_tokens::settle_login(policy::identity_settings settings, token_answer answer, bool force)
{
    const bool other =
        !answer.subject.empty() && !record_.subject.empty() && answer.subject != record_.subject;
    if (other && !force) {
        co_await save();  // the secret is spent either way
        const auto name = [](const std::string& user, const std::string& subject) {
            return redact(user.empty() ? subject : user);
        };
        co_return failure{.code = errc::refused,
                          .context = "this login is for " + name(answer.user, answer.subject) +
                                     ", the previous one was for " + name(record_.user, record_.subject) +
                                     ". Log in as the same service user, or, with a new code or refresh "
                                     "token, run: exposure-agent login --force",
                          .kind = retry::never};
    }
    auto next = std::move(answer.refresh_token);
    record_.subject.clear();
    record_.user.clear();
    record_.pending.reset();
    adopt(settings, std::move(answer), std::move(next), std::nullopt);
    record_.last_refresh_at.reset();
    copied_ = false;  // this grant belongs to this machine
    co_await keep();
    io::crash_point("login.answer.saved");
    if (unsaved_)
        co_return failure{.code = errc::disk,
                          .context = "logged in, but the tokens could not be saved: " + unsaved_->context +
                                     "; saving is retried"};
    co_return policy::result<void>();
}

io::task<void> oauth_tokens::logout(turn_begins begin)
{
    const auto turn = co_await lock_.acquire();
    if (const auto begun = begin ? begin() : policy::result<void>(); !begun) co_return begun.error();
    if (auto loaded = co_await load_or_start_over(); !loaded) co_return loaded.error();
    if (!record_.tokens.refresh_token.empty())
        record_.at(fingerprint_of(record_.tokens.refresh_token)).spent = true;
    auto spent = std::move(record_.presented);
    record_ = {};
    record_.presented = std::move(spent);
    access_refused_ = false;
    last_failure_.reset();
    co_return co_await save();
}

// Status.

// No access token works, and only a person can get one.
bool oauth_tokens::over() const
{
    if (record_.trouble != login_trouble::none || refresh_token_spent(record_)) return true;
    if (!record_.granted_to.empty() && record_.granted_to != grant_name(settings_)) return true;
    return record_.tokens.refresh_token.empty() && !current_usable();
}

failure oauth_tokens::login_required() const
{
    failure why{.code = errc::login_required,
                .context = "Not logged in. Run: exposure-agent login",
                .kind = retry::never};
    if (!record_.trouble_text.empty())
        why.context = record_.trouble_text;
    else if (!record_.granted_to.empty() && record_.granted_to != grant_name(settings_))
        why.context = "the login is for another identity.auth_url or client_id" + std::string(remedy);
    else if (!record_.tokens.access_token.empty())
        why.context =
            "the access token has expired, and the login server gave no refresh token" + std::string(remedy);
    return why;
}

io::task<login_status> oauth_tokens::status()
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto& tokens = record_.tokens;
    login_status status{.state = over() ? login_state::required : login_state::ok,
                        .unsaved = unsaved_.has_value(),
                        .sentence = {},
                        .subject = record_.user.empty() ? record_.subject : record_.user,
                        .access_token_expires_at = tokens.expires_at,
                        .last_refresh_at = record_.last_refresh_at,
                        .failing_since = record_.failing_since,
                        .published_at = record_.published.at,
                        .publish_failures = record_.published.failures};
    status.sentence = status.state == login_state::required ? login_required().context : trouble_sentence();
    status.attention =
        status.state == login_state::required || record_.failing_since ||
        (open_attempts(record_) > 0 && !sending_) || copied_ ||
        (record_.session_ends_at && *record_.session_ends_at - world_.clock.now() < session_warning);
    co_return status;
}

io::task<std::vector<policy::forecast_entry>> oauth_tokens::forecast(instant until)
{
    using entries = std::vector<policy::forecast_entry>;
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    const auto wall = world_.clock.now();
    if (!copied_ && !over())
        co_return platform::forecast(record_, heartbeat(settings_.refresh_every, owner_), wall, until,
                                     publishes());
    const auto why = copied_ ? no_tokens_of_another_machine() : login_required();
    policy::forecast_entry entry{.at = wall,
                                 .name = {},
                                 .action = policy::forecast_action::login,
                                 .reason = "login_required",
                                 .sentence = why.context};
    entries only;
    only.push_back(std::move(entry));
    co_return only;
}

// What is wrong with a login that still works; empty if nothing is.
std::string oauth_tokens::trouble_sentence() const
{
    const auto& tokens = record_.tokens;
    std::string until = "the access token works until ";
    if (tokens.expires_at)
        until = (usable(tokens) ? until : "the access token expired at ") +
                policy::format_utc(*tokens.expires_at);
    else
        until += "the first 401";
    if (copied_) return no_tokens_of_another_machine().context;
    if (record_.failing_since)
        return record_.failing_text + "; failing since " + policy::format_utc(*record_.failing_since) +
               ", retrying; " + until;
    if (open_attempts(record_) > 0 && !sending_)
        return "the last refresh got no response; retrying; " + until;
    if (tokens.refresh_token.empty()) return "the login server gave no refresh token; " + until + before_then;
    if (unsaved_) return "the tokens could not be saved: " + unsaved_->context;
    if (record_.session_ends_at)
        return "the login server ends this login at " + policy::format_utc(*record_.session_ends_at) +
               before_then;
    return {};
}

// identity.publish.

io::task<std::optional<crypto::secret>> oauth_tokens::unpublished(bool always)
{
    if (auto loaded = co_await load(); !loaded) co_return loaded.error();
    if (copied_ || !current_usable()) co_return std::optional<crypto::secret>();
    const bool known = record_.published.fingerprint == fingerprint_of(record_.tokens.access_token);
    if (known && !always) co_return std::optional<crypto::secret>();
    co_return std::optional(record_.tokens.access_token.clone());
}

io::task<void> oauth_tokens::note_publication(const crypto::secret& token, bool done)
{
    const auto print = fingerprint_of(token);
    const auto turn = co_await lock_.acquire();
    if (done) {
        record_.published.fingerprint = print;
        record_.published.at = world_.clock.now();
    } else {
        record_.published.fingerprint.clear();
        ++record_.published.failures;
    }
    co_return co_await save();
}

}  // namespace platform
