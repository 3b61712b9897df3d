#include "agent/io/async.hpp"

#include "agent/io/log.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace io {

namespace asio = boost::asio;

async_event::async_event(asio::any_io_executor executor)
    : timer_(std::move(executor), asio::steady_timer::time_point::max())
{
}

void async_event::set()
{
    set_ = true;
    timer_.cancel();
}

void async_event::reset() noexcept
{
    set_ = false;
}

awaitable<void> async_event::wait()
{
    while (!set_)
        co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
}

stop_event::stop_event(asio::any_io_executor executor) : event_(std::move(executor)) {}

void stop_event::request()
{
    if (requested()) return;
    event_.set();
    for (auto& callback : callbacks_)
        callback();
}

stop_event::subscription stop_event::on_request(std::function<void()> then)
{
    return subscription(*this, std::move(then));
}

stop_event::subscription::subscription(stop_event& owner, std::function<void()> then)
    : owner_(owner), place_(owner.callbacks_.insert(owner.callbacks_.end(), std::move(then)))
{
}

stop_event::subscription::~subscription()
{
    owner_.callbacks_.erase(place_);
}

policy::failure stopped()
{
    return {policy::errc::stopping, "stopped on request", policy::retry::later, std::nullopt};
}

namespace {

awaitable<void> expire(asio::steady_timer& timer, bool& expired)
{
    const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    expired = !error;
}

std::string in_words(std::chrono::milliseconds duration)
{
    const auto count = duration.count();
    return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

std::string message_of(const std::exception_ptr& error)
{
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "unknown exception";
    }
}

}  // namespace

awaitable<void> detail::run_on(asio::any_io_executor pool, std::function<void()> job)
{
    const auto executor = co_await asio::this_coro::executor;
    // No cancellation slot on the handler: a frame that the job uses must not end before the job does.
    const auto start = [&](auto handler) {
        asio::post(pool,
                   [&job, handler = std::move(handler), work = asio::make_work_guard(executor)]() mutable {
                       std::exception_ptr error;
                       try {
                           job();
                       } catch (...) {
                           error = std::current_exception();
                       }
                       asio::post(work.get_executor(),
                                  [handler = std::move(handler), error]() mutable { handler(error); });
                   });
    };
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
        start, asio::use_awaitable);
}

awaitable<bool> detail::run_until(std::chrono::milliseconds limit, awaitable<void> operation)
{
    using namespace asio::experimental::awaitable_operators;

    asio::steady_timer timer(co_await asio::this_coro::executor, limit);
    bool expired = false;
    // Neither side may throw: `||` waits for the first success, so an exception would last until the limit.
    co_await (std::move(operation) || expire(timer, expired));
    co_return expired;
}

bool detail::is_cancellation(const std::exception_ptr& error)
{
    try {
        std::rethrow_exception(error);
    } catch (const boost::system::system_error& e) {
        return e.code() == asio::error::operation_aborted;
    } catch (...) {
        return false;
    }
}

policy::failure took_longer_than(std::chrono::milliseconds limit)
{
    return {policy::errc::timed_out, "took longer than " + in_words(limit), policy::retry::later,
            std::nullopt};
}

task<void> sleep_for(std::chrono::milliseconds duration, stop_event& stop)
{
    if (stop.requested()) co_return stopped();
    asio::steady_timer timer(co_await asio::this_coro::executor, duration);
    const auto subscription = stop.on_request([&timer] { timer.cancel(); });
    const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (stop.requested()) co_return stopped();
    if (error) throw boost::system::system_error(error);  // cancelled by the caller, which knows why
    co_return policy::result<void>();
}

void spawn(asio::any_io_executor executor, std::string name, awaitable<void> work, stop_event& stop)
{
    asio::co_spawn(executor, std::move(work), [name = std::move(name), &stop](std::exception_ptr error) {
        if (!error) return;
        log(severity::error,
            "the task " + name + " failed with an exception; stopping: " + message_of(error));
        stop.request();
    });
}

awaitable<void> for_each_parallel(std::size_t limit, std::size_t count,
                                  std::function<awaitable<void>(std::size_t)> fn)
{
    if (count == 0) co_return;
    const auto executor = co_await asio::this_coro::executor;
    std::size_t next = 0;
    const auto worker = [&]() -> awaitable<void> {
        while (next < count) {
            const auto index = next++;
            try {
                co_await fn(index);
            } catch (...) {
                next = count;
                throw;
            }
        }
    };

    using start = decltype(asio::co_spawn(executor, worker, asio::deferred));
    std::vector<start> workers;
    for (std::size_t i = 0; i < std::clamp<std::size_t>(limit, 1, count); ++i)
        workers.push_back(asio::co_spawn(executor, worker, asio::deferred));
    auto [order, errors] = co_await asio::experimental::make_parallel_group(std::move(workers))
                               .async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
    for (const auto index : order)
        if (errors[index]) std::rethrow_exception(errors[index]);
}

}  // namespace io
