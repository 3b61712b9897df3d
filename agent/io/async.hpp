#pragma once

#include "policy/result.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

// Every waiting operation is an awaitable of a result. One thread runs the io_context, so it is the strand.

namespace io {

template <class T>
using awaitable = boost::asio::awaitable<T>;

template <class T>
using task = boost::asio::awaitable<policy::result<T>>;

// --- Events for coroutines of one thread. They are sticky: unlike a
// cancellation signal, an event that is set while nobody waits is not lost
// (models: a signal emitted while cancellation is disabled is dropped).

// Stays set until reset. Must outlive its waiters. wait() ends early (with the exception that Asio throws
// into a cancelled coroutine) only under with_deadline or for_each_parallel.
class async_event {
public:
    explicit async_event(boost::asio::any_io_executor);

    bool is_set() const noexcept { return set_; }
    void set();             // wakes all waiters
    void reset() noexcept;  // a waiter that has not resumed yet keeps waiting
    awaitable<void> wait();

private:
    boost::asio::steady_timer timer_;
    bool set_ = false;
};

// A stop request, made once and never withdrawn. Waits end at once; critical sections finish, then check it.
class stop_event {
public:
    explicit stop_event(boost::asio::any_io_executor);

    bool requested() const noexcept { return event_.is_set(); }
    void request();
    awaitable<void> wait() { return event_.wait(); }

    // Calls `then` once when a stop is requested during the subscription's lifetime: for operations that
    // wait() cannot interrupt (a socket, a child). `then` must not touch subscriptions. Not called if a stop
    // was requested earlier: check requested() first.
    class subscription {
    public:
        subscription(subscription&&) = delete;
        ~subscription();

    private:
        friend class stop_event;
        subscription(stop_event& owner, std::function<void()> then);

        stop_event& owner_;
        std::list<std::function<void()>>::iterator place_;
    };
    [[nodiscard]] subscription on_request(std::function<void()> then);

private:
    async_event event_;
    std::list<std::function<void()>> callbacks_;
};

// The failure of an operation interrupted by a stop.
policy::failure stopped();

// --- Starting, limiting and joining work. Only this header deals with cancellation.

namespace detail {

// Runs the job on the pool and resumes on this thread only when it has ended, cancelled or not.
awaitable<void> run_on(boost::asio::any_io_executor pool, std::function<void()> job);

// Waits for the operation, which stores its own result, for at most `limit`; then cancels it and still waits
// for it to end. True when the limit was reached first.
awaitable<bool> run_until(std::chrono::milliseconds limit, awaitable<void> operation);

// True for the exception that Asio throws into a cancelled coroutine; any other exception is a bug.
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

// Runs fn() on the pool (nothing else does) and returns or throws its outcome on the awaiting thread. fn uses
// values or locals of the awaiting coroutine and must limit its own duration: work on the pool can be neither
// timed out nor cancelled. Tests pass the executor of their own io_context.
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

// errc::timed_out, "took longer than 5 s". Operations that
// send something need another code: see policy::never_sent.
policy::failure took_longer_than(std::chrono::milliseconds limit);

// The operation's result, or `late` if there is none within the limit. An
// existing result is never discarded, even if it arrives at the last moment.
// Does not limit work on the pool, nor host lookups other than io::resolve.
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

// Sleeps by the monotonic clock; errc::stopping as soon as a stop is requested.
task<void> sleep_for(std::chrono::milliseconds, stop_event&);

// Starts a task that nobody awaits. An exception that escapes it is a bug: it is
// logged under the task's name and the program is asked to stop. Pass everything
// it needs by value; whatever owns it must outlive the io_context's run.
void spawn(boost::asio::any_io_executor, std::string name, awaitable<void>, stop_event&);

// fn(0) ... fn(count - 1), started in this order, at most `limit` at a time; returns when all have ended.
// The first exception prevents further starts and is thrown at the end.
awaitable<void> for_each_parallel(std::size_t limit, std::size_t count,
                                  std::function<awaitable<void>(std::size_t)> fn);

// --- Mutual exclusion among the coroutines of one thread, first come, first served

class async_lock {
public:
    explicit async_lock(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

    // Releases the lock on destruction.
    class holder {
    public:
        holder(holder&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
        holder& operator=(holder&&) = delete;
        ~holder()
        {
            if (lock_) lock_->free();
        }

    private:
        friend class async_lock;
        explicit holder(async_lock& lock) : lock_(&lock) {}

        async_lock* lock_;
    };

    awaitable<holder> acquire()
    {
        if (std::exchange(taken_, true)) {
            waiter here(*this);
            co_await here.turn.wait();
        }
        co_return holder(*this);
    }

private:
    struct waiter {
        explicit waiter(async_lock& lock) : turn(lock.executor_), queue(lock.waiting_)
        {
            queue.push_back(this);
        }
        ~waiter() { queue.remove(this); }  // cancelled: gives up its place in the queue
        waiter(const waiter&) = delete;

        async_event turn;
        std::list<waiter*>& queue;
    };

    // Passes the lock to the first waiter, so that no later caller can overtake it.
    void free()
    {
        if (waiting_.empty()) {
            taken_ = false;
            return;
        }
        auto* next = waiting_.front();
        waiting_.pop_front();
        next->turn.set();
    }

    boost::asio::any_io_executor executor_;
    bool taken_ = false;
    std::list<waiter*> waiting_;
};

// --- Concurrent callers share one operation: fifty calls that get a 401 cause one refresh.

// T is copied to every waiter (void, or a shared_ptr to what cannot be copied).
template <class T>
class single_flight {
public:
    // Joins the operation in flight, or starts one with `start`. It is independent of its waiters: it runs to
    // completion even when all of them are cancelled. Its exception is thrown to all of them.
    task<T> run(std::function<task<T>()> start)
    {
        auto flight = current_->lock();
        if (!flight) {
            const auto executor = co_await boost::asio::this_coro::executor;
            flight = std::make_shared<shared>(executor);
            *current_ = flight;
            boost::asio::co_spawn(
                executor,
                [flight, start = std::move(start)] {
                    return detail::keep(start(), flight->answer, flight->error);
                },
                [flight, current = current_](std::exception_ptr error) {
                    if (error) flight->error = error;
                    current->reset();
                    flight->landed.set();
                });
        }
        co_await flight->landed.wait();
        if (flight->error) std::rethrow_exception(flight->error);
        co_return *flight->answer;
    }

private:
    struct shared {
        explicit shared(boost::asio::any_io_executor executor) : landed(std::move(executor)) {}

        async_event landed;
        std::optional<policy::result<T>> answer;
        std::exception_ptr error;
    };

    // Shared with the operation, which may outlive this object.
    std::shared_ptr<std::weak_ptr<shared>> current_ = std::make_shared<std::weak_ptr<shared>>();
};

}  // namespace io
