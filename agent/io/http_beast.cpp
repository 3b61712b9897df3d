#include "agent/io/http_beast.hpp"

#include "agent/io/connect.hpp"
#include "agent/io/connection_pool.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/http_message.hpp"

#include <boost/asio/this_coro.hpp>

#include <utility>

namespace io {

using namespace std::chrono_literals;
using policy::errc;
using policy::failure;
using policy::retry;

namespace {

constexpr auto answer_grace = 3s;           // after a stop, for what may already have been processed
constexpr auto kept_for_safe = 60s;         // a kept connection that a repeatable request may try
constexpr auto kept_for_unrepeatable = 2s;  // servers close idle connections after 5 s or more

// How one try on one connection went.
struct conversation {
    policy::result<http_response> outcome;
    bool may_keep = false;
    bool unsent = false;   // no byte could be handed over
    bool unheard = false;  // the peer closed before the first byte of an answer
};

failure no_answer(std::string context)
{
    return {errc::no_answer, std::move(context), retry::later, std::nullopt};
}

// What the limit did to a request that was (at least partly) sent.
failure cut_off(const time_limit& limit, bool idempotent)
{
    if (limit.late()) return no_answer("no complete answer within the time limit (network.timeout)");
    if (idempotent) return stopped();
    return no_answer("stopped on request before the answer came");
}

awaitable<conversation> converse(connection& line, const crypto::secret& text, bool idempotent,
                                 time_limit& limit)
{
    limit.on_over([&line] { line.close(); });
    if (!idempotent) limit.finish_within(answer_grace);
    crash_point("http.send.before");
    const auto sent = co_await line.write(text.view());
    crash_point("http.send.after");
    if (sent.bytes == 0) {
        if (limit.stopped()) co_return conversation{stopped()};
        if (limit.late())
            co_return conversation{
                failure{errc::timed_out, "nothing could be sent in time", retry::later, std::nullopt}};
        co_return conversation{
            .outcome = failure{errc::not_connected, "the connection was closed before anything was sent",
                               retry::later, std::nullopt},
            .unsent = true};
    }
    if (limit.over()) co_return conversation{cut_off(limit, idempotent)};
    if (sent.error) co_return conversation{no_answer("the connection ended while the request was sent")};

    auto heard = co_await read_answer(line);
    crash_point("http.received");
    limit.on_over({});
    if (heard) co_return conversation{.outcome = std::move(heard->response), .may_keep = heard->keep_alive};
    if (limit.over()) co_return conversation{cut_off(limit, idempotent)};
    co_return conversation{.outcome = heard.error().why, .unheard = heard.error().nothing_heard};
}

}  // namespace

// Shared with the exchanges under way, so that configure() never pulls anything from under them.
struct http_beast::impl {
    explicit impl(policy::network_settings s)
        : settings(std::move(s)),
          trust(settings.ca_file, settings.crl_file),
          pool(static_cast<std::size_t>(settings.connections))
    {
    }

    task<http_response> exchange(http_request request, const http_address& to,
                                 const std::optional<proxy>& via, time_limit& limit);

    policy::network_settings settings;
    tls_trust trust;
    connection_pool pool;
};

task<http_response> http_beast::impl::exchange(http_request request, const http_address& to,
                                               const std::optional<proxy>& via, time_limit& limit)
{
    const auto text = request_text(request, to);
    if (!text) co_return text.error();
    auto place = co_await pool.enter(origin(to), limit);
    if (!place) co_return place.error();

    if (auto kept = place->take_kept(request.idempotent ? kept_for_safe : kept_for_unrepeatable)) {
        auto said = co_await converse(*kept, *text, request.idempotent, limit);
        if (said.may_keep) place->keep(std::move(kept));
        // It died while nobody used it: once more on a new one, if the peer cannot have acted.
        if (!said.unsent && !(said.unheard && request.idempotent)) co_return std::move(said.outcome);
    }

    const auto deadline = limit.deadline();
    const auto now = std::chrono::steady_clock::now();
    limit.extend(now + (deadline - now) / 2);
    auto line = co_await connect(to, via, trust, limit);
    if (!line) co_return line.error();
    limit.extend(deadline);
    auto said = co_await converse(**line, *text, request.idempotent, limit);
    if (said.may_keep) place->keep(std::move(*line));
    co_return std::move(said.outcome);
}

http_beast::http_beast(policy::network_settings settings, proxy_environment environment, stop_event& stop)
    : impl_(std::make_shared<impl>(std::move(settings))), environment_(std::move(environment)), stop_(stop)
{
}

http_beast::~http_beast() = default;

task<http_response> http_beast::exchange(http_request request)
{
    if (stop_.requested()) co_return stopped();
    const auto to = parse_http_address(request.url);
    if (!to) co_return to.error();
    const auto self = impl_;
    const auto via = proxy_for(*to, self->settings.proxy, environment_);
    if (!via) co_return policy::with_context(origin(*to), via.error());

    const auto duration = request.limits.answer.value_or(self->settings.timeout);
    time_limit limit(co_await boost::asio::this_coro::executor, stop_,
                     std::chrono::steady_clock::now() + duration);
    const auto consume = std::move(request.consume);
    auto outcome = co_await self->exchange(std::move(request), *to, *via, limit);
    if (outcome && consume && outcome->status >= 200 && outcome->status < 300) {
        const auto consumed = consume(std::exchange(outcome->body, {}));
        if (!consumed) co_return consumed.error();
    }
    if (!outcome && outcome.error().code != errc::stopping)
        co_return policy::with_context(origin(*to), outcome.error());
    co_return outcome;
}

void http_beast::configure(policy::network_settings settings)
{
    impl_ = std::make_shared<impl>(std::move(settings));
}

void http_beast::close_kept()
{
    impl_->pool.close_kept();
}

}  // namespace io
