#include "agent/service/notifier.hpp"

#include "agent/deploy/hooks.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "agent/io/url.hpp"
#include "agent/platform/response.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace service {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds nothing_due = std::chrono::hours(1);
constexpr milliseconds shortest = std::chrono::seconds(1);

policy::login_facts facts_of(const platform::login_status& login)
{
    return {.required = login.state == platform::login_state::required,
            .failing = login.attention,
            .sentence = login.sentence,
            .since = login.failing_since};
}

policy::failure not_sent(const std::string& why)
{
    return {.code = policy::errc::hook_failed, .context = why};
}

std::string answered(const std::string& how, std::string_view said, std::string_view hidden = {})
{
    const auto words = platform::redact(said, {&hidden, 1});
    return how + (words.empty() ? ", no output" : ": " + words);
}

}  // namespace

boost::json::object to_json(const policy::notification& n, const std::string& owner)
{
    return {{"schema", "exposure-agent.notify/v1"},
            {"state", policy::word_of(n.state)},
            {"case", policy::word_of(n.what)},
            {"subject", n.subject},
            {"since", policy::format_utc(n.since)},
            {"message", n.message},
            {"remedy", n.remedy},
            {"host", io::short_hostname()},
            {"owner", owner}};
}

void notifier::load()
{
    memory_ = disk::state_database::load_notifications(app_.paths());
}

io::awaitable<milliseconds> notifier::round(platform::login_status login,
                                            std::vector<std::string> diagnostics)
{
    if (!app_.desired().notify.enabled()) co_return nothing_due;
    const policy::notify_facts facts{.desired = app_.desired(),
                                     .stored = app_.state().stored(),
                                     .login = facts_of(login),
                                     .diagnostics = std::move(diagnostics)};
    auto decision = policy::notifications(facts, memory_, app_.clock().now());
    co_await keep(std::move(decision.memory));
    for (const auto& due : decision.due) {
        const auto sent = co_await send(due);
        if (!sent && sent.error().code == policy::errc::stopping) co_return nothing_due;
        const auto now = app_.clock().now();
        if (sent) {
            io::log(io::severity::info, io::events::notified, {},
                    "notification sent (" + std::string(policy::word_of(due.state)) + "): " + due.message);
            co_await keep(policy::after_sending(memory_, due, now));
            continue;
        }
        auto failed = policy::after_sending(memory_, sent.error(), now);
        const auto next = *failed.failure->next_attempt - now;
        io::log(io::severity::warning, io::events::notify_failed, {},
                "notification not sent: " + sent.error().context + "; next retry in " +
                    policy::format_duration(next));
        co_await keep(std::move(failed));
        co_return std::max<milliseconds>(next, shortest);
    }
    if (!decision.wake_at) co_return nothing_due;
    co_return std::clamp<milliseconds>(*decision.wake_at - app_.clock().now(), shortest, nothing_due);
}

io::task<std::string> notifier::test()
{
    if (!app_.desired().notify.enabled())
        co_return policy::failure{.code = policy::errc::config,
                                  .context =
                                      "notify is not configured; add notify.command or notify.url to "
                                      "the configuration",
                                  .kind = policy::retry::after_change};
    const auto message = policy::test_notification(app_.state().stored().owner, app_.clock().now());
    co_return co_await send(message);
}

io::task<std::string> notifier::send(const policy::notification& what)
{
    auto message = boost::json::serialize(to_json(what, app_.state().stored().owner));
    if (!app_.desired().notify.command.empty()) co_return co_await run_command(std::move(message));
    co_return co_await post(std::move(message));
}

io::task<std::string> notifier::run_command(std::string message)
{
    auto argv = app_.desired().notify.command;
    const auto name = "notify.command " + argv.front();
    const auto outcome = co_await deploy::run_command(app_.process(), std::move(argv), message + "\n");
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome) co_return not_sent(name + ": " + outcome.error().context);
    const auto how = answered(name + ": " + deploy::ending_of(*outcome),
                              outcome->ok() || outcome->err.empty() ? outcome->out : outcome->err);
    if (!outcome->ok()) co_return not_sent(how);
    co_return how;
}

// Messages name only the host of a webhook: anyone who knows its path can post to it.
io::task<std::string> notifier::post(std::string message)
{
    const auto& url = app_.desired().notify.url;
    const auto to = io::parse_http_address(url);
    if (!to) co_return not_sent("notify.url is not a valid https address");
    io::http_request request{.method = "POST",
                             .url = url,
                             .headers = {{"Content-Type", "application/json"}},
                             .authorization = std::nullopt,
                             .body = crypto::secret(std::move(message))};
    const auto answer = co_await app_.http().exchange(std::move(request));
    if (!answer && answer.error().code == policy::errc::stopping) co_return answer.error();
    if (!answer) co_return not_sent("notify.url: " + answer.error().context);
    const auto how = answered("notify.url: " + to->host + " answered " + std::to_string(answer->status),
                              answer->body, to->target.size() > 1 ? to->target : std::string_view());
    if (answer->status < 200 || answer->status > 299) co_return not_sent(how);
    co_return how;
}

// Kept in memory in any case, so that a full disk does not cause notifications to be repeated.
io::awaitable<void> notifier::keep(policy::notify_memory memory)
{
    if (memory == memory_) co_return;
    memory_ = std::move(memory);
    disk::change change;
    change.notified = memory_;
    if (auto kept = co_await app_.store().commit(std::move(change)); !kept)
        io::log(io::severity::warning,
                "cannot record which notifications were sent: " + kept.error().context);
}

}  // namespace service
