#include "agent/service/login_watch.hpp"

#include "agent/deploy/hooks.hpp"
#include "agent/io/log.hpp"
#include "agent/platform/oauth.hpp"
#include "agent/platform/response.hpp"
#include "agent/reconcile/run.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace service {
namespace {

using platform::login_state;
using std::chrono::milliseconds;

constexpr milliseconds nothing_due = std::chrono::hours(1);
constexpr milliseconds after_failure = std::chrono::minutes(1);
constexpr milliseconds shortest = std::chrono::seconds(1);
constexpr milliseconds after_refusal = std::chrono::seconds(5);  // nothing could be sent
constexpr milliseconds first_publish_pause = std::chrono::seconds(5);
constexpr milliseconds last_publish_pause = std::chrono::minutes(10);

void say(const platform::login_status& before, const platform::login_status& now, bool first)
{
    const bool lost = now.state == login_state::required && (first || before.state != login_state::required);
    if (lost) {
        io::log(io::severity::error, io::events::login_required, {}, now.sentence);
    } else if (!now.sentence.empty() && now.sentence != before.sentence &&
               now.state != login_state::required) {
        io::log(io::severity::warning, io::events::refresh_failed, {}, now.sentence);
    } else if (!first && now.state == login_state::ok && before.state == login_state::ok &&
               now.last_refresh_at != before.last_refresh_at) {
        io::log(io::severity::info, io::events::refreshed, {}, "the access token was refreshed");
    }
}

// Why publishing failed; empty: it succeeded.
std::string ending(const policy::result<io::process_outcome>& outcome, const crypto::secret& token)
{
    if (!outcome) return outcome.error().context;
    if (outcome->ok()) return {};
    const std::array hidden = {token.view()};
    const auto said = platform::redact(outcome->err.empty() ? outcome->out : outcome->err, hidden);
    return deploy::ending_of(*outcome) + ", " + (said.empty() ? "no output" : said);
}

}  // namespace

io::task<void> publish_token(application& app, bool always)
{
    auto argv = app.desired().identity.publish_command;
    if (argv.empty() || !app.oauth()) co_return policy::result<void>();
    auto token = co_await app.oauth()->unpublished(always);
    if (!token) co_return token.error();
    if (!*token) co_return policy::result<void>();
    const auto name = argv.front();
    std::string input((*token)->view());
    auto outcome = co_await deploy::run_command(app.process(), std::move(argv), std::move(input));
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    const auto wrong = ending(outcome, **token);
    co_await app.oauth()->note_publication(**token, wrong.empty());
    if (wrong.empty()) co_return policy::result<void>();
    policy::failure failed{.code = policy::errc::hook_failed,
                           .context = "identity.publish: " + name + " failed (" + wrong +
                                      "); the access token was not published; retrying"};
    io::log(io::severity::warning, failed.context);
    co_return failed;
}

login_watch::login_watch(application& app, task_group& group, timers& t, std::function<void()> gained)
    : app_(app), gained_(std::move(gained)), task_(group, t, "login", [this] { return refresh_if_due(); })
{
}

io::awaitable<void> login_watch::check()
{
    auto now = co_await app_.login_status();
    platform::login_status next =
        now ? std::move(*now) : platform::login_status{.sentence = now.error().context};
    const bool gained =
        checked_ && status_.state == login_state::required && next.state != login_state::required;
    if (!policy::is_decommissioned(app_.state().stored())) say(status_, next, !checked_);
    status_ = std::move(next);
    checked_ = true;
    if (!gained) co_return;
    co_await reconcile::forget_login_failures(app_.state());
    gained_();
}

// How long until something is due. A copied state directory refreshes nothing: the token is another host's.
io::awaitable<milliseconds> login_watch::until_due()
{
    if (!app_.oauth() || app_.state().stored().cloned) co_return nothing_due;
    const auto due = co_await app_.oauth()->refresh_due_at();
    if (!due) co_return after_failure;
    const auto refresh =
        *due ? std::max<milliseconds>(**due - app_.clock().now(), milliseconds(0)) : nothing_due;
    if (publish_failures_ == 0) co_return refresh;
    const auto publish = std::chrono::ceil<milliseconds>(next_publish_ - app_.clock().steady());
    co_return std::min(refresh, std::max(publish, milliseconds(0)));
}

io::awaitable<void> login_watch::publish()
{
    if (publish_failures_ > 0 && app_.clock().steady() < next_publish_) co_return;
    const bool first = !std::exchange(published_, true);
    const auto done = co_await publish_token(app_, first);
    if (done) {
        publish_failures_ = 0;
        co_return;
    }
    const auto pause =
        std::min<milliseconds>(last_publish_pause, first_publish_pause * (1 << publish_failures_));
    next_publish_ = app_.clock().steady() + pause;
    publish_failures_ = std::min(publish_failures_ + 1, 10);
}

io::awaitable<milliseconds> login_watch::refresh_if_due()
{
    co_await publish();
    if (const auto wait = co_await until_due(); wait > milliseconds(0)) co_return wait;
    const auto refreshed = co_await app_.oauth()->refresh_if_due();
    co_await check();
    co_return refreshed ? shortest : after_refusal;
}

}  // namespace service
