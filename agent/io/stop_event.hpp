#pragma once

#include "agent/io/awaitable.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <list>

// Events that coroutines of one thread wait for. They are sticky: unlike a cancellation signal, an event that
// comes while nobody waits is not lost (models: a signal emitted while cancellation is disabled is dropped).

namespace io {

// Set stays set until reset. Outlives those who wait for it. wait() ends early (with the exception that Asio
// throws into a cancelled coroutine) only under with_deadline or for_each_parallel.
class async_event {
public:
    explicit async_event(boost::asio::any_io_executor);

    bool is_set() const noexcept { return set_; }
    void set();             // wakes everyone who waits
    void reset() noexcept;  // a waiter that was not resumed yet waits on
    awaitable<void> wait();

private:
    boost::asio::steady_timer timer_;
    bool set_ = false;
};

// "Stop, please": requested once, for good. Waits end at once, critical sections run to their end and look.
class stop_event {
public:
    explicit stop_event(boost::asio::any_io_executor);

    bool requested() const noexcept { return event_.is_set(); }
    void request();
    awaitable<void> wait() { return event_.wait(); }

    // Calls `then` once when the stop is requested, as long as the subscription lives: for what a wait()
    // cannot interrupt (a socket, a child). `then` must not touch subscriptions. Not called for a stop that
    // was requested before: look at requested() first.
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

// The failure of whatever a stop cut short.
policy::failure stopped();

}  // namespace io
