#pragma once

#include "agent/io/awaitable.hpp"
#include "agent/io/stop_event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

// The ways to start, bound and join work. The only header in which cancellation is spoken of.

namespace io {

namespace detail {

// Runs the job on the pool, and comes back to this thread only when it has ended, cancelled or not.
awaitable<void> run_on(boost::asio::any_io_executor pool, std::function<void()> job);

// Waits for the operation, which keeps what it has to say, at most that long; then cancels it and waits for
// its end all the same. True when time ran out first.
awaitable<bool> run_until(std::chrono::milliseconds limit, awaitable<void> operation);

// What Asio throws into a cancelled coroutine, rather than a bug.
bool is_cancellation(const std::exception_ptr&);

template <class T>
awaitable<void> keep(task<T> operation, std::optional<policy::result<T>>& answer, std::exception_ptr& error)
{
    try {
        answer.emplace(co_await std::move(operation));
    } catch (...) {
        error = std::current_exception();
    }
}

}  // namespace detail

// Runs fn() on the pool (the only door to it) and comes back to the awaiting thread with what it returned or
// threw. fn works on values or on locals of the awaiting coroutine, and is bounded by itself: work on a pool
// can be neither timed out nor cancelled. Tests pass the executor of their own io_context.
template <class Function, class Value = std::invoke_result_t<Function&>>
awaitable<Value> offload(boost::asio::any_io_executor pool, Function fn)
{
    if constexpr (std::is_void_v<Value>) {
        co_await detail::run_on(pool, std::ref(fn));
    } else {
        std::optional<Value> value;
        co_await detail::run_on(pool, [&] { value.emplace(fn()); });
        co_return std::move(*value);
    }
}

// errc::timed_out, "took longer than 5 s". For operations that send something, name another: see
// policy::never_sent.
policy::failure took_longer_than(std::chrono::milliseconds limit);

// The operation's result, or `late` when it has none after that time. A result that exists is never thrown
// away, even when it comes at the last moment. Does not bound work on the pool, nor a lookup that does not go
// through io::resolve.
template <class T>
task<T> with_deadline(std::chrono::milliseconds limit, task<T> operation, policy::failure late)
{
    std::optional<policy::result<T>> answer;
    std::exception_ptr error;
    const bool expired = co_await detail::run_until(limit, detail::keep(std::move(operation), answer, error));
    if (answer) co_return std::move(*answer);
    if (expired && detail::is_cancellation(error)) co_return late;
    std::rethrow_exception(error);
}

template <class T>
task<T> with_deadline(std::chrono::milliseconds limit, task<T> operation)
{
    return with_deadline(limit, std::move(operation), took_longer_than(limit));
}

// Waits by the monotonic clock; errc::stopping as soon as a stop is requested.
task<void> sleep_for(std::chrono::milliseconds, stop_event&);

// Starts a task that nobody awaits. An exception that leaves it is a bug: it is logged under the task's name
// and the program is asked to stop. Pass everything it needs by value; its owner outlives the io_context's
// run.
void spawn(boost::asio::any_io_executor, std::string name, awaitable<void>, stop_event&);

// fn(0) ... fn(count - 1), at most `limit` at a time, in this order of starting; returns when all have ended.
// The first exception is thrown then, and keeps those that have not started from starting.
awaitable<void> for_each_parallel(std::size_t limit, std::size_t count,
                                  std::function<awaitable<void>(std::size_t)> fn);

}  // namespace io
