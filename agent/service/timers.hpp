#pragma once

#include "agent/io/stop_event.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <list>

// One timer for everything that waits in the daemon, so that a quiet one wakes up once or twice a minute,
// however much waits. At each wake-up the wall clock is looked at: time that passed while the machine slept
// counts, a clock that was set back does not make anything wait longer.

namespace service {

class timers {
public:
    using wall = std::chrono::system_clock;

    // Wakes up at least every `slice` and calls `at_each` then. A test brings its own wall clock.
    timers(boost::asio::any_io_executor, std::chrono::milliseconds slice, std::function<void()> at_each,
           std::function<wall::time_point()> wall_now = wall::now);

    // Until that much time has passed, or the event is set.
    io::awaitable<void> wait(std::chrono::milliseconds, io::async_event&);

    // Runs until the stop.
    io::awaitable<void> run(io::stop_event&);

private:
    using steady = std::chrono::steady_clock;

    struct entry {
        steady::time_point steady_due;
        wall::time_point wall_due;
        io::async_event* event;
    };

    bool is_over(const entry&) const;
    steady::time_point next() const;

    boost::asio::steady_timer timer_;
    std::chrono::milliseconds slice_;
    std::function<void()> at_each_;
    std::function<wall::time_point()> wall_now_;
    std::list<entry> waiting_;
};

}  // namespace service
