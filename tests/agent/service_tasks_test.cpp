#include "agent/io/async.hpp"
#include "agent/service/tasks.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct loop {
    boost::asio::io_context context;
    io::stop_event stop{context.get_executor()};
    service::task_group group{context.get_executor(), stop};
    service::timers timers{context.get_executor(), stop, 1h, [] {}};
    bool over = false;

    // Returns true if every task has ended and no pending timer remains.
    bool ends()
    {
        boost::asio::co_spawn(context, wait_for_end(), boost::asio::detached);
        context.run();
        return over;
    }

    io::awaitable<void> wait_for_end()
    {
        co_await group.ended();
        over = true;
    }

    io::awaitable<void> until(io::async_event& event) { co_await event.wait(); }
};

io::awaitable<void> fail()
{
    throw std::runtime_error("a bug");
    co_return;
}

io::awaitable<void> lock_in_turn(io::async_lock& lock, int number, std::vector<int>& order)
{
    const auto held = co_await lock.acquire();
    order.push_back(number);
    // a newcomer must not overtake those already waiting
    co_await boost::asio::post(co_await boost::asio::this_coro::executor, boost::asio::use_awaitable);
}

io::awaitable<void> relock(io::async_lock& lock, std::vector<int>& order)
{
    {
        const auto held = co_await lock.acquire();
        order.push_back(0);
        co_await boost::asio::post(co_await boost::asio::this_coro::executor, boost::asio::use_awaitable);
    }
    const auto held = co_await lock.acquire();
    order.push_back(9);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(service_tasks)

BOOST_AUTO_TEST_CASE(nothing_starts_after_a_stop)
{
    loop l;
    io::async_event never(l.context.get_executor());
    l.stop.request();
    BOOST_TEST(!l.group.start("late", l.until(never)));
    BOOST_TEST(l.ends());
}

BOOST_AUTO_TEST_CASE(the_end_waits_for_every_task)
{
    loop l;
    io::async_event event(l.context.get_executor());
    BOOST_TEST(l.group.start("one", l.until(event)));
    boost::asio::co_spawn(l.context, l.wait_for_end(), boost::asio::detached);
    l.context.run_for(1ms);
    BOOST_TEST(!l.over);
    event.set();
    l.context.restart();
    l.context.run();
    BOOST_TEST(l.over);
}

BOOST_AUTO_TEST_CASE(an_exception_stops_the_program_and_holds_up_nobody)
{
    loop l;
    l.group.start("broken", fail());
    BOOST_TEST(l.ends());
    BOOST_TEST(l.stop.requested());
}

BOOST_AUTO_TEST_CASE(a_task_that_sleeps_ends_with_a_stop)
{
    loop l;
    int rounds = 0;
    service::periodic_task task(l.group, l.timers, "often",
                                [&]() -> io::awaitable<std::chrono::milliseconds> {
                                    ++rounds;
                                    co_return 1h;
                                });
    task.start();
    l.group.start("timers", l.timers.run());
    l.context.poll();
    l.stop.request();
    BOOST_TEST(l.ends());
    BOOST_TEST(rounds == 1);
}

// A stop may come before the timer's task has started: sleepers are woken regardless.
BOOST_AUTO_TEST_CASE(a_stop_wakes_without_the_timer)
{
    loop l;
    service::periodic_task task(l.group, l.timers, "delayed",
                                []() -> io::awaitable<std::chrono::milliseconds> { co_return 1h; });
    task.start(1h);
    l.context.poll();
    l.stop.request();
    BOOST_TEST(l.ends());
}

BOOST_AUTO_TEST_CASE(an_exception_in_a_round_ends_its_task)
{
    loop l;
    service::periodic_task task(l.group, l.timers, "broken",
                                []() -> io::awaitable<std::chrono::milliseconds> {
                                    throw std::runtime_error("a bug");
                                    co_return 1h;
                                });
    task.start();
    BOOST_TEST(l.ends());
    BOOST_TEST(l.stop.requested());
}

// A busy pass does not hide one that hangs, and a changed limit applies from the next pass on.
BOOST_AUTO_TEST_CASE(one_pass_that_hangs_is_seen_beside_a_busy_one)
{
    service::progress_watch passes;
    const service::progress_watch::time_point start;
    BOOST_TEST(passes.idle());
    {
        const service::progress_watch::mark hangs(passes, "logs", 10min, start);
        const service::progress_watch::mark busy(passes, "health", 10min, start);
        passes.progress("logs", start + 1min);
        BOOST_TEST(!passes.stuck(start + 10min));
        passes.progress("health", start + 11min);
        BOOST_TEST(!passes.stuck(start + 11min));
        BOOST_TEST(passes.stuck(start + 11min + 1s));
        passes.progress("logs", start + 12min);
        BOOST_TEST(!passes.stuck(start + 12min));
    }
    BOOST_TEST(passes.idle());
    BOOST_TEST(!passes.stuck(start + 1h));
}

BOOST_AUTO_TEST_CASE(a_lock_goes_to_whoever_came_first)
{
    loop l;
    io::async_lock lock(l.context.get_executor());
    std::vector<int> order;
    boost::asio::co_spawn(l.context, relock(lock, order), boost::asio::detached);
    for (int i = 1; i <= 3; ++i)
        boost::asio::co_spawn(l.context, lock_in_turn(lock, i, order), boost::asio::detached);
    l.context.run();
    const std::vector<int> expected = {0, 1, 2, 3, 9};
    BOOST_TEST(order == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
