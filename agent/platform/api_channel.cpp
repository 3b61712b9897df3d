#include "agent/platform/api_channel.hpp"

#include "agent/platform/address.hpp"
#include "agent/platform/status.hpp"
#include "policy/dates.hpp"

#include <array>
#include <utility>

namespace platform {
namespace {

crypto::secret bearer(const crypto::secret& token)
{
    std::string value;
    value.reserve(token.view().size() + 7);  // at once: growing would leave a copy behind
    value.append("Bearer ").append(token.view());
    return crypto::secret(std::move(value));
}

// What a refusal of the API is usually about. Groups, and with them roles, are received at log-on
// (platform-api section 1.3).
policy::failure with_advice(policy::failure failed)
{
    if (failed.code == policy::errc::forbidden)
        failed.context +=
            ": the service user lacks the role, or tenant is not the login's; after a change of "
            "role, log in again";
    if (failed.code == policy::errc::unauthorized) failed.context += ": the access token is not accepted";
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

    auto answer = co_await exchange(call, *token);
    if (answer && answer->status == 401) {
        auto newer = co_await tokens_.after_refusal(token->clone());
        if (!newer) co_return policy::with_context(call.what, newer.error());
        token = std::move(newer);
        // no time is left to try again: then the refusal is the answer
        auto again = co_await exchange(call, *token);
        if (again || again.error().code != policy::errc::stopping) answer = std::move(again);
    }
    if (!answer) co_return policy::with_context(call.what, answer.error());
    if (status) *status = answer->status;
    if (succeeded(*answer)) {
        tokens_.accepted(*token);
        co_return answer;
    }
    const std::array hidden = {token->view()};
    co_return with_advice(failure_of(*answer, call.what, host_of(call.url), clock_.now(), hidden));
}

io::task<io::http_response> api_channel::exchange(const api_call& call, const crypto::secret& token)
{
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
        observer_(call.operation,
                  answer ? std::to_string(answer->status) : policy::word_of(answer.error().code));
    if (answer)
        if (const auto date = policy::parse_date(header(*answer, "date")))
            clock_ahead_[host_of(call.url)] = clock_.now() - *date;
    co_return answer;
}

policy::failure unbelievable(const api_call& call, policy::failure failure)
{
    return policy::with_context(call.what + ": the answer of " + host_of(call.url) + " is not believed",
                                std::move(failure));
}

}  // namespace platform
