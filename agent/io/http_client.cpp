#include "agent/io/http_client.hpp"

#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/http_connection.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <utility>

namespace io {

namespace asio = boost::asio;
namespace beast = boost::beast;
using namespace std::chrono_literals;
using policy::errc;
using policy::failure;
using policy::retry;
using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr auto answer_grace = 3s;           // after a stop, for requests that may have been processed
constexpr auto kept_for_safe = 60s;         // maximum idle time before a repeatable request
constexpr auto kept_for_unrepeatable = 2s;  // servers close idle connections after 5 s or more

failure failed(errc code, std::string context)
{
    return {code, std::move(context), retry::later, std::nullopt};
}

// Limits the concurrent exchanges with one host and keeps their open connections.
class host_connections {
public:
    explicit host_connections(std::size_t places) : places_(places) {}

    // The right to use one connection; on destruction it passes to the longest waiting caller.
    class place {
    public:
        explicit place(std::shared_ptr<host_connections> at) : at_(std::move(at)) {}
        place(place&&) noexcept = default;
        place& operator=(place&&) = delete;
        ~place()
        {
            if (at_) at_->leave();
        }

        // The most recently used connection that is still open, or nullptr.
        std::shared_ptr<http_connection> take_kept(clock_type::duration not_older_than)
        {
            while (!at_->idle_.empty()) {
                auto [connection, since] = std::move(at_->idle_.back());
                at_->idle_.pop_back();
                if (clock_type::now() - since <= not_older_than && connection->is_quiet()) return connection;
            }
            return nullptr;
        }

        void keep(std::shared_ptr<http_connection> connection)
        {
            at_->idle_.emplace_back(std::move(connection), clock_type::now());
        }

    private:
        std::shared_ptr<host_connections> at_;
    };

    static task<place> enter(std::shared_ptr<host_connections> at, stop_event& stop)
    {
        if (at->taken_ < at->places_) {
            ++at->taken_;
            co_return place(at);
        }
        async_event turn(co_await asio::this_coro::executor);
        waiter self{turn};
        at->waiting_.push_back(&self);
        const struct step_back {
            host_connections& at;
            waiter& self;
            ~step_back()
            {
                at.waiting_.remove(&self);
                if (self.granted) at.leave();
            }
        } step_back{*at, self};
        const auto on_stop = stop.on_request([&turn] { turn.set(); });
        co_await turn.wait();
        if (std::exchange(self.granted, false)) co_return place(at);
        co_return stopped();
    }

    void close_kept() { idle_.clear(); }
    std::size_t places() const noexcept { return places_; }

private:
    struct waiter {
        async_event& turn;
        bool granted = false;
    };

    void leave()
    {
        if (waiting_.empty()) {
            --taken_;
            return;
        }
        auto& next = *waiting_.front();
        waiting_.pop_front();
        next.granted = true;
        next.turn.set();
    }

    std::size_t places_;
    std::size_t taken_ = 0;
    std::list<waiter*> waiting_;
    std::deque<std::pair<std::shared_ptr<http_connection>, clock_type::time_point>> idle_;
};

// The outcome of one attempt on one connection.
struct attempt {
    policy::result<http_response> response;
    bool keep = false;
    bool unsent = false;      // no byte was sent: try another connection
    bool unanswered = false;  // the peer closed before the first byte of an answer
};

// Why an exchange failed after its request was (at least partly) sent; nullopt if the peer was the reason.
std::optional<failure> cut_off(http_connection& connection, const beast::error_code& error,
                               const http_request& request, const stop_event& stop)
{
    if (error == beast::error::timeout)
        return failed(errc::no_answer, "no complete answer within the time limit (network.timeout)");
    if (!error || !stop.requested() || connection.tcp().socket().is_open()) return std::nullopt;
    if (request.idempotent) return stopped();
    return failed(errc::no_answer, "stopped before the answer arrived");
}

}  // namespace

// Shared with the exchanges in progress, so that configure() never changes anything they use.
struct http_client::impl {
    impl(policy::network_settings s, proxy_credentials c)
        : settings(std::move(s)), credentials(std::move(c)), trust(settings.ca_file, settings.crl_file)
    {
    }

    // A single-use request has its own connection, so that it never waits behind slow requests.
    std::shared_ptr<host_connections> connections_to(const http_address& to, bool single_use)
    {
        auto& found = hosts[{origin(to), single_use}];
        const auto places = single_use ? 1 : static_cast<std::size_t>(settings.connections);
        if (!found) found = std::make_shared<host_connections>(places);
        return found;
    }

    task<http_response> exchange(http_request, http_address to, std::optional<proxy> via, stop_event&);
    task<std::shared_ptr<http_connection>> open(const http_address&, std::optional<proxy>,
                                                steady_time deadline, stop_event&);
    awaitable<attempt> try_on(std::shared_ptr<http_connection>, const wiped_buffer& text, const http_request&,
                              milliseconds limit, stop_event&);

    policy::network_settings settings;
    proxy_credentials credentials;
    tls_trust trust;
    std::map<std::pair<std::string, bool>, std::shared_ptr<host_connections>> hosts;
    std::optional<async_lock> large;  // held while a large body is received
};

awaitable<attempt> http_client::impl::try_on(std::shared_ptr<http_connection> connection,
                                             const wiped_buffer& text, const http_request& request,
                                             milliseconds limit, stop_event& stop)
{
    if (stop.requested()) co_return attempt{stopped()};
    auto deadline = clock_type::now() + limit;
    connection->expires_at(deadline);
    asio::steady_timer grace(co_await asio::this_coro::executor);
    const auto on_stop = stop.on_request([&grace, &request, weak = std::weak_ptr(connection)] {
        if (request.single_use) return;
        grace.expires_after(request.idempotent ? 0s : answer_grace);
        grace.async_wait([weak](beast::error_code error) {
            if (const auto open = weak.lock(); open && !error) open->close();
        });
    });

    crash_point("http.send.before");
    const auto sent = co_await connection->write(text);
    crash_point("http.send.after");
    if (const auto cut = cut_off(*connection, sent.error, request, stop)) {
        const bool nothing_sent = sent.bytes == 0 && sent.error != beast::error::timeout;
        co_return attempt{nothing_sent ? stopped() : *cut};
    }
    if (sent.error && sent.bytes == 0)
        co_return attempt{
            .response = failed(errc::not_connected, "the connection was closed before anything was sent"),
            .unsent = true};
    if (sent.error)
        co_return attempt{failed(errc::no_answer, "the connection was closed while the request was sent")};

    std::optional<async_lock::holder> alone;
    const large_body before_large = [&]() -> awaitable<void> {
        const auto since = clock_type::now();
        alone.emplace(co_await large->acquire());
        deadline += clock_type::now() - since;  // waiting for the lock is not the server's delay
        connection->expires_at(deadline);
    };
    auto answer = co_await receive(*connection, request, before_large);
    crash_point("http.received");
    if (answer.response) co_return attempt{.response = std::move(answer.response), .keep = answer.keep_alive};
    if (auto cut = cut_off(*connection, answer.error, request, stop)) co_return attempt{*cut};
    co_return attempt{.response = answer.response.error(), .unanswered = answer.nothing};
}

task<std::shared_ptr<http_connection>> http_client::impl::open(const http_address& to,
                                                               std::optional<proxy> via, steady_time deadline,
                                                               stop_event& stop)
{
    if (via && credentials) {
        const auto pair = co_await credentials();
        if (!pair)
            co_return failure{errc::not_connected, pair.error().context, retry::after_change, std::nullopt};
        via->authorization = basic_authorization(pair->view());
    }
    co_return co_await connect(to, std::move(via), trust, deadline, stop);
}

task<http_response> http_client::impl::exchange(http_request request, http_address to,
                                                std::optional<proxy> via, stop_event& stop)
{
    const auto text = request_text(request, to);
    if (!text) co_return text.error();
    if (!large) large.emplace(co_await asio::this_coro::executor);

    const milliseconds timeout = settings.timeout;
    const auto at = connections_to(to, request.single_use);
    failure busy = failed(
        errc::timed_out, "all " + std::to_string(at->places()) + " connections to it were busy for too long");
    auto entering = host_connections::enter(at, stop);
    auto place =
        co_await with_deadline(request.limits.wait.value_or(timeout), std::move(entering), std::move(busy));
    if (!place) co_return place.error();

    const auto start = clock_type::now();
    const auto answer_limit = [&] {
        if (request.limits.answer) return *request.limits.answer;
        if (!request.idempotent) return timeout;
        const auto spent = std::chrono::floor<milliseconds>(clock_type::now() - start);
        return std::max(timeout - spent, milliseconds(1));
    };
    if (auto kept = place->take_kept(request.idempotent ? kept_for_safe : kept_for_unrepeatable)) {
        auto tried = co_await try_on(kept, *text, request, answer_limit(), stop);
        if (tried.keep) place->keep(std::move(kept));
        // An idle connection died: try once more on a new one, if the peer cannot have processed the request.
        if (!tried.unsent && !(tried.unanswered && request.idempotent)) co_return std::move(tried.response);
    }

    const auto connect_limit = request.limits.connect.value_or(request.limits.answer ? timeout : timeout / 2);
    auto connection = co_await open(to, std::move(via), start + connect_limit, stop);
    if (!connection) co_return connection.error();
    auto tried = co_await try_on(*connection, *text, request, answer_limit(), stop);
    if (tried.keep) place->keep(std::move(*connection));
    co_return std::move(tried.response);
}

http_client::http_client(policy::network_settings settings, proxy_environment environment, stop_event& stop)
    : impl_(std::make_shared<impl>(std::move(settings), proxy_credentials())),
      environment_(std::move(environment)),
      stop_(stop)
{
}

http_client::~http_client() = default;

task<http_response> http_client::exchange(http_request request)
{
    if (stop_.requested()) co_return stopped();
    const auto to = parse_http_address(request.url);
    if (!to) co_return to.error();
    const auto self = impl_;
    auto via = proxy_for(*to, self->settings.proxy, environment_);
    if (!via) co_return policy::with_context(origin(*to), via.error());
    auto outcome = co_await self->exchange(std::move(request), *to, std::move(*via), stop_);
    if (!outcome && outcome.error().code != errc::stopping)
        co_return policy::with_context(origin(*to), outcome.error());
    co_return outcome;
}

void http_client::configure(policy::network_settings settings, proxy_credentials credentials)
{
    impl_ = std::make_shared<impl>(std::move(settings), std::move(credentials));
}

void http_client::close_kept()
{
    for (auto& [key, host] : impl_->hosts)
        host->close_kept();
}

}  // namespace io
