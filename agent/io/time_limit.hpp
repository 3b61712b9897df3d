#pragma once

#include "agent/io/stop_event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>

// The time that one exchange may take, and the stop that may end it early. It works by closing what the
// exchange waits for (a socket, a place in a queue), not by cancelling coroutines: what was sent and what was
// heard is then known exactly.

namespace io {

class time_limit {
public:
    using time_point = std::chrono::steady_clock::time_point;

    // Over at `deadline`, or at once when the stop is requested.
    time_limit(boost::asio::any_io_executor, stop_event&, time_point deadline);
    ~time_limit();

    void extend(time_point deadline);

    // From now on a stop leaves this much time: what was sent should hear its answer.
    void finish_within(std::chrono::milliseconds grace);

    // Called once when the limit is over; replaces the one before, and {} means nobody waits.
    void on_over(std::function<void()> interrupt);

    bool late() const noexcept;     // over: the deadline has passed
    bool stopped() const noexcept;  // over: a stop came first
    bool over() const noexcept { return late() || stopped(); }
    time_point deadline() const noexcept;
    stop_event& stop() const noexcept { return stop_; }

private:
    struct state;

    stop_event& stop_;
    std::shared_ptr<state> state_;
    stop_event::subscription subscription_;
};

}  // namespace io
