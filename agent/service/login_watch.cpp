#include "agent/service/login_watch.hpp"

#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/io/notify.hpp"
#include "agent/platform/oauth_tokens.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

namespace service {
namespace {

using platform::login_state;
using std::chrono::milliseconds;

constexpr milliseconds nothing_due = std::chrono::hours(1);
constexpr milliseconds after_failure = std::chrono::minutes(1);
constexpr milliseconds shortest = std::chrono::seconds(1);
constexpr int save_attempts = 60;  // tokens that the disk refuses are worth a slow stop

// Why, without the remedy that is said anyway.
std::string reason_of(std::string sentence)
{
    constexpr std::string_view remedy = ": run `exposure-agent login`";
    if (sentence.ends_with(remedy)) sentence.resize(sentence.size() - remedy.size());
    return sentence.empty() ? "" : " (" + sentence + ")";
}

void say(const platform::login_status& before, const platform::login_status& now, bool first)
{
    const bool lost = now.state == login_state::required && (first || before.state != login_state::required);
    if (lost) {
        io::log(io::severity::error, io::events::login_required, {},
                "log in first: exposure-agent login" + reason_of(now.sentence));
    } else if (!now.sentence.empty() && now.sentence != before.sentence &&
               now.state != login_state::required) {
        io::log(io::severity::warning, io::events::refresh_failed, {}, now.sentence);
    } else if (!first && now.state == login_state::ok && before.state == login_state::ok &&
               now.last_refresh_at != before.last_refresh_at) {
        io::log(io::severity::info, io::events::refreshed, {}, "the access token was refreshed");
    }
}

}  // namespace

login_watch::login_watch(application& app, timers& a, std::function<void()> gained)
    : app_(app),
      timers_(a),
      gained_(std::move(gained)),
      wake_(app.executor()),
      on_stop_(app.stop().on_request([this] { wake_.set(); }))
{
}

io::awaitable<void> login_watch::look()
{
    auto now = co_await app_.login_status();
    platform::login_status next =
        now ? std::move(*now) : platform::login_status{.sentence = now.error().context};
    const bool gained =
        looked_ && status_.state == login_state::required && next.state != login_state::required;
    say(status_, next, !looked_);
    status_ = std::move(next);
    looked_ = true;
    if (gained) gained_();
}

// How long until something is due. A copied state directory refreshes nothing: the token is another's.
io::awaitable<milliseconds> login_watch::until_due()
{
    if (!app_.oauth() || app_.world().stored().cloned) co_return nothing_due;
    const auto due = co_await app_.oauth()->refresh_due_at();
    if (!due) co_return after_failure;
    if (!*due) co_return nothing_due;
    co_return std::max<milliseconds>(**due - app_.clock().now(), milliseconds(0));
}

io::awaitable<void> login_watch::run()
{
    while (!app_.stop().requested()) {
        wake_.reset();
        if (const auto wait = co_await until_due(); wait > milliseconds(0)) {
            co_await timers_.wait(wait, wake_);
            continue;
        }
        const auto refreshed = co_await app_.oauth()->refresh_if_due();
        if (!refreshed && refreshed.error().code == policy::errc::stopping) co_return;
        co_await look();
        if (!app_.stop().requested()) co_await timers_.wait(shortest, wake_);
    }
}

// The stop has been requested: sleeping goes by a timer of its own.
io::awaitable<void> login_watch::save()
{
    if (!app_.oauth()) co_return;
    boost::asio::steady_timer pause(app_.executor());
    for (int attempt = 0; attempt < save_attempts; ++attempt) {
        const auto saved = co_await app_.oauth()->flush();
        if (saved) co_return;
        if (attempt == 0) io::log(io::severity::error, saved.error().context);
        io::notify::extend_timeout(std::chrono::seconds(5));
        pause.expires_after(std::chrono::seconds(1));
        co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
}

}  // namespace service
