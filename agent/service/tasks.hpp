#pragma once

#include "agent/io/async.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>

// The daemon's tasks: a group that starts them and knows when all have ended, and a timer that wakes them.

namespace service {

// After a stop was requested, nothing new starts, and ended() returns once everything that was started
// has ended, in whatever way.
class task_group {
public:
    // The stop must outlive this object; the tasks' owners must outlive the run of the io_context.
    task_group(boost::asio::any_io_executor, io::stop_event&);

    // False: a stop was requested, and nothing was started. A task's exception is logged and requests a stop.
    bool start(std::string name, io::awaitable<void> work);

    // Waits until every task has ended. Must not be called from one of them.
    io::awaitable<void> ended();

    bool stopping() const noexcept { return stop_.requested(); }
    boost::asio::any_io_executor executor() const { return executor_; }
    io::stop_event& stop() const noexcept { return stop_; }

private:
    struct state;

    boost::asio::any_io_executor executor_;
    io::stop_event& stop_;
    std::shared_ptr<state> state_;  // shared with the tasks: frames may be destroyed after this
};

// One timer for everything that waits in the daemon, so that an idle daemon wakes up once or twice a minute,
// however many waits there are. Each wake-up also checks the wall clock: time in suspend counts, and a clock
// that was set back does not make anything wait longer.
class timers {
public:
    using wall = std::chrono::system_clock;

    // Wakes up at least every `slice` and calls `at_each` then. Tests pass their own wall clock.
    timers(boost::asio::any_io_executor, io::stop_event&, std::chrono::milliseconds slice,
           std::function<void()> at_each, std::function<wall::time_point()> wall_now = wall::now);

    // Waits until that much time has passed, the event is set, or a stop is requested.
    io::awaitable<void> wait(std::chrono::milliseconds, io::async_event&);

    // Runs until a stop is requested.
    io::awaitable<void> run();

private:
    using steady = std::chrono::steady_clock;

    struct entry {
        steady::time_point steady_due;
        wall::time_point wall_due;
        io::async_event* event;
    };

    bool is_over(const entry&) const;
    steady::time_point next() const;
    void wake_all();

    boost::asio::steady_timer timer_;
    io::stop_event& stop_;
    std::chrono::milliseconds slice_;
    std::function<void()> at_each_;
    std::function<wall::time_point()> wall_now_;
    std::list<entry> waiting_;
    io::stop_event::subscription on_stop_;
};

// Detects running work that makes no progress. Each piece is watched by itself: progress of one does not hide
// that another one hangs.
class progress_watch {
public:
    using time_point = std::chrono::steady_clock::time_point;

private:
    struct entry {
        std::string name;
        std::chrono::steady_clock::duration limit;  // as it was when the work began
        time_point progress;
    };

public:
    // The work is running for the lifetime of its mark.
    class mark {
    public:
        mark(progress_watch& all, std::string name, std::chrono::steady_clock::duration limit,
             time_point now);
        ~mark() { all_.under_way_.erase(place_); }
        mark(const mark&) = delete;

    private:
        progress_watch& all_;
        std::list<entry>::iterator place_;
    };

    void progress(const std::string& name, time_point now);
    // True when some work has made no progress for longer than its limit.
    bool stuck(time_point now) const;
    bool idle() const { return under_way_.empty(); }

private:
    std::list<entry> under_way_;
};

// Work that runs repeatedly: after the time that it asked for, or as soon as it is woken.
class periodic_task {
public:
    // Returns how long to wait before the next run.
    using round = std::function<io::awaitable<std::chrono::milliseconds>()>;

    // The arguments and this object must outlive the group's tasks.
    periodic_task(task_group&, timers&, std::string name, round);

    void start(std::chrono::milliseconds delay = {});
    void wake() { wake_.set(); }

private:
    io::awaitable<void> run(std::chrono::milliseconds delay);

    task_group& group_;
    timers& timers_;
    std::string name_;
    round round_;
    io::async_event wake_;
};

}  // namespace service
