#include "agent/platform/api_channel.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/response.hpp"
#include "policy/dates.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace platform {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds first_interval = 1s;
constexpr std::chrono::milliseconds longest_interval = 10s;
constexpr std::chrono::milliseconds longest_turn =
    60s;  // a call that would wait longer fails, with the time to retry
// A POST is sent soon after its intent is stored or not at all: settle times count from the intent.
constexpr std::chrono::milliseconds longest_post_turn = 10s;
constexpr int good_run = 3;    // good answers before the interval halves
constexpr int most_turns = 4;  // of one request that keeps getting 429

crypto::secret bearer(const crypto::secret& token)
{
    std::string value;
    value.reserve(token.view().size() + 7);  // reallocation would leave a copy of the token behind
    value.append("Bearer ").append(token.view());
    return crypto::secret(std::move(value));
}

// Adds the usual cause of a refusal. Groups, and with them roles, are received at login
// (platform-api section 1.3).
policy::failure with_advice(policy::failure failed)
{
    if (failed.code == policy::errc::forbidden)
        failed.context +=
            ": the service user lacks the role, or tenant is not the login's; after a change of "
            "role, log in again";
    if (failed.code == policy::errc::unauthorized) failed.context += ": the access token was rejected";
    return failed;
}

}  // namespace

api_channel::api_channel(io::http& http, access_tokens& tokens, io::clock& clock, observer watch)
    : http_(http), tokens_(tokens), clock_(clock), observer_(std::move(watch))
{
}

std::optional<policy::duration> api_channel::clock_ahead(const std::string& host) const
{
    const auto known = clock_ahead_.find(host);
    return known == clock_ahead_.end() ? std::nullopt : std::optional(known->second);
}

io::task<io::http_response> api_channel::send(api_call call, unsigned* status)
{
    if (status) *status = 0;
    auto token = co_await tokens_.current();
    if (!token) co_return policy::with_context(call.what, token.error());

    auto answer = co_await exchange_in_turn(call, *token);
    if (answer && answer->status == 401) {
        auto newer = co_await tokens_.after_refusal(token->clone());
        if (!newer) co_return policy::with_context(call.what, newer.error());
        token = std::move(newer);
        // if no time is left to try again, report the refusal
        auto again = co_await exchange_in_turn(call, *token);
        if (again || again.error().code != policy::errc::stopping) answer = std::move(again);
    }
    if (!answer) co_return policy::with_context(call.what, answer.error());
    if (status) *status = answer->status;
    if (succeeded(*answer)) {
        tokens_.accepted(*token);
        co_return answer;
    }
    const std::array hidden = {token->view()};
    co_return with_advice(failure_of(*answer, call.what, io::host_of(call.url), clock_.now(), hidden));
}

io::task<void> api_channel::wait_for_turn(const std::string& host, std::chrono::milliseconds longest)
{
    const auto known = paces_.find(host);
    if (known == paces_.end()) co_return policy::result<void>();
    const auto now = clock_.steady();
    const auto turn = std::max(now, known->second.next);
    if (turn - now > longest)
        co_return policy::failure{.code = policy::errc::throttled,
                                  .context = host + " is rate limiting requests; not sent",
                                  .kind = policy::retry::later,
                                  .retry_after = std::chrono::ceil<policy::duration>(turn - now)};
    known->second.next = turn + known->second.interval;
    if (turn == now) co_return policy::result<void>();
    co_return co_await clock_.sleep_for(std::chrono::ceil<std::chrono::milliseconds>(turn - now));
}

void api_channel::note_pace(const std::string& host, const io::http_response& answer,
                            std::chrono::steady_clock::time_point sent)
{
    const auto now = clock_.steady();
    if (answer.status == 429 || answer.status == 503) {
        auto& at = paces_[host];
        const auto asked = retry_after(answer, clock_.now()).value_or(policy::duration(0));
        at.next = std::max(at.next, now + asked);
        at.good = 0;
        if (sent < at.changed) return;
        at.interval = std::clamp(2 * at.interval, first_interval, longest_interval);
        at.next = std::max(at.next, now + at.interval);
        at.changed = now;
        return;
    }
    const auto known = paces_.find(host);
    if (known == paces_.end() || !succeeded(answer) || ++known->second.good < good_run) return;
    known->second.good = 0;
    known->second.interval /= 2;
    if (known->second.interval < first_interval / 2) paces_.erase(known);
}

io::task<io::http_response> api_channel::exchange_in_turn(const api_call& call, const crypto::secret& token)
{
    const auto host = io::host_of(call.url);
    const auto longest = call.method == "POST" ? longest_post_turn : longest_turn;
    const auto until = clock_.steady() + longest;
    auto turn = co_await wait_for_turn(host, longest);
    if (!turn) co_return turn.error();
    for (int n = 1;; ++n) {
        auto answer = co_await exchange(call, token);
        if (!answer || answer->status != 429 || n == most_turns) co_return answer;
        const auto left = std::chrono::floor<std::chrono::milliseconds>(until - clock_.steady());
        turn = co_await wait_for_turn(host, left);
        // if no time is left to try again, report the refusal
        if (!turn) co_return answer;
    }
}

io::task<io::http_response> api_channel::exchange(const api_call& call, const crypto::secret& token)
{
    const auto host = io::host_of(call.url);
    const auto sent = clock_.steady();
    io::http_request request{.method = call.method,
                             .url = call.url,
                             .headers = {{"Accept", "application/json"}},
                             .authorization = bearer(token),
                             .body = std::nullopt,
                             .body_limit = call.body_limit,
                             .consume = call.consume,
                             .idempotent = call.method != "POST"};
    if (!call.body.empty()) {
        request.headers.emplace("Content-Type", "application/json");
        request.body = crypto::secret(std::string_view(call.body));
    }
    auto answer = co_await http_.exchange(std::move(request));
    if (observer_)
        observer_(call, answer ? std::to_string(answer->status) : policy::word_of(answer.error().code));
    if (!answer) co_return answer;
    note_pace(host, *answer, sent);
    if (const auto date = policy::parse_date(header(*answer, "date")))
        clock_ahead_[host] = clock_.now() - *date;
    co_return answer;
}

policy::failure unbelievable(const api_call& call, policy::failure failure)
{
    return policy::with_context(call.what + ": " + io::host_of(call.url) + " sent an invalid response",
                                std::move(failure));
}

}  // namespace platform
