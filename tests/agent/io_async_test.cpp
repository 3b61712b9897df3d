#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/support/run_coroutine.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
#include <thread>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using policy::errc;
using support::run_coroutine;

namespace {

struct no_default {
    explicit no_default(int v) : value(v) {}
    int value;
};

policy::failure some_failure()
{
    return {errc::no_answer, "gone", policy::retry::later, std::nullopt};
}

io::task<int> never(io::async_event& event)
{
    co_await event.wait();
    co_return 1;
}

io::task<int> failing()
{
    co_return some_failure();
}

io::task<int> throwing()
{
    throw std::logic_error("a bug");
    co_return 1;
}

io::awaitable<void> yield()
{
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_async)

BOOST_AUTO_TEST_CASE(offload_runs_elsewhere_and_carries_any_value_back)
{
    asio::io_context context;
    asio::thread_pool pool(1);
    const auto here = std::this_thread::get_id();
    std::thread::id there;
    run_coroutine(context, [&]() -> io::awaitable<void> {
        const auto value = co_await io::offload(pool.get_executor(), [&] {
            there = std::this_thread::get_id();
            return no_default(7);
        });
        BOOST_TEST(value.value == 7);
        BOOST_TEST((std::this_thread::get_id() == here));
        auto moved = co_await io::offload(pool.get_executor(), [] { return std::make_unique<int>(3); });
        BOOST_TEST(*moved == 3);
        co_await io::offload(pool.get_executor(), [] {});
    }());
    BOOST_TEST((there != here));
}

BOOST_AUTO_TEST_CASE(offload_brings_an_exception_back)
{
    asio::io_context context;
    asio::thread_pool pool(1);
    const auto work = [&]() -> io::awaitable<void> {
        co_await io::offload(pool.get_executor(), []() -> int { throw std::runtime_error("in the pool"); });
    };
    BOOST_CHECK_THROW(run_coroutine(context, work()), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_what_does_not_end_by_itself)
{
    asio::io_context context;
    io::async_event event(context.get_executor());
    const auto answer = run_coroutine(context, io::with_deadline(5ms, never(event)));
    BOOST_REQUIRE(answer.has_error());
    BOOST_TEST((answer.error().code == errc::timed_out));
    BOOST_TEST(answer.error().context == "took longer than 5 ms");
}

BOOST_AUTO_TEST_CASE(a_deadline_hands_a_failure_on_at_once_and_names_another_when_asked)
{
    asio::io_context context;
    const auto failed = run_coroutine(context, io::with_deadline(1h, failing()));
    BOOST_TEST((failed.error() == some_failure()));
    io::async_event event(context.get_executor());
    const auto late = run_coroutine(context, io::with_deadline(1ms, never(event), some_failure()));
    BOOST_TEST((late.error() == some_failure()));
}

BOOST_AUTO_TEST_CASE(a_deadline_never_hides_a_bug)
{
    BOOST_CHECK_THROW(run_coroutine(io::with_deadline(1h, throwing())), std::logic_error);
}

BOOST_AUTO_TEST_CASE(deadlines_nest_and_the_nearer_one_speaks)
{
    asio::io_context context;
    io::async_event event(context.get_executor());
    const auto inner = run_coroutine(context, io::with_deadline(1h, io::with_deadline(2ms, never(event))));
    BOOST_TEST(inner.error().context == "took longer than 2 ms");
    const auto outer = run_coroutine(context, io::with_deadline(2ms, io::with_deadline(1h, never(event))));
    BOOST_TEST(outer.error().context == "took longer than 2 ms");
}

BOOST_AUTO_TEST_CASE(a_stop_ends_a_sleep_and_is_not_lost)
{
    asio::io_context context;
    io::stop_event stop(context.get_executor());
    io::real_clock clock(stop);
    asio::post(context, [&] { stop.request(); });
    const auto cut = run_coroutine(context, clock.sleep_for(1h));
    BOOST_TEST((cut.error().code == errc::stopping));
    const auto again = run_coroutine(context, clock.sleep_for(1h));
    BOOST_TEST((again.error().code == errc::stopping));
    run_coroutine(context, stop.wait());
}

BOOST_AUTO_TEST_CASE(a_sleep_ends_by_itself_and_under_a_deadline)
{
    asio::io_context context;
    io::stop_event stop(context.get_executor());
    io::real_clock clock(stop);
    BOOST_TEST(run_coroutine(context, clock.sleep_for(1ms)).has_value());
    const auto late = run_coroutine(context, io::with_deadline(1ms, clock.sleep_for(1h)));
    BOOST_TEST((late.error().code == errc::timed_out));
}

BOOST_AUTO_TEST_CASE(a_subscription_is_called_once_and_only_while_it_lives)
{
    asio::io_context context;
    io::stop_event stop(context.get_executor());
    int living = 0;
    int gone = 0;
    const auto kept = stop.on_request([&] { ++living; });
    {
        const auto dropped = stop.on_request([&] { ++gone; });
    }
    stop.request();
    stop.request();
    BOOST_TEST(living == 1);
    BOOST_TEST(gone == 0);
}

BOOST_AUTO_TEST_CASE(an_exception_in_a_spawned_task_stops_the_program)
{
    asio::io_context context;
    io::stop_event stop(context.get_executor());
    io::spawn(
        context.get_executor(), "test (this line is expected)",
        []() -> io::awaitable<void> {
            throw std::runtime_error("expected by this test");
            co_return;
        }(),
        stop);
    run_coroutine(context, stop.wait());
    BOOST_TEST(stop.requested());
}

BOOST_AUTO_TEST_CASE(for_each_parallel_keeps_its_limit_and_visits_all)
{
    asio::io_context context;
    std::vector<int> visits(20, 0);
    std::size_t running = 0;
    std::size_t most = 0;
    run_coroutine(context, io::for_each_parallel(3, visits.size(), [&](std::size_t i) -> io::awaitable<void> {
                      most = std::max(most, ++running);
                      ++visits[i];
                      co_await yield();
                      --running;
                  }));
    BOOST_TEST(most == 3u);
    BOOST_TEST((visits == std::vector<int>(20, 1)));
    run_coroutine(context, io::for_each_parallel(3, 0, {}));
}

BOOST_AUTO_TEST_CASE(for_each_parallel_joins_all_before_it_throws)
{
    asio::io_context context;
    std::size_t ended = 0;
    std::size_t started = 0;
    const auto work = [&](std::size_t i) -> io::awaitable<void> {
        ++started;
        co_await yield();
        if (i == 0) throw std::runtime_error("first");
        co_await yield();
        ++ended;
    };
    BOOST_CHECK_THROW(run_coroutine(context, io::for_each_parallel(2, 10, work)), std::runtime_error);
    BOOST_TEST(started == 2u);
    BOOST_TEST(ended == 1u);
}

BOOST_AUTO_TEST_CASE(for_each_parallel_ends_its_work_under_a_deadline)
{
    asio::io_context context;
    io::async_event event(context.get_executor());
    std::size_t ended = 0;
    const auto all = [&]() -> io::task<void> {
        co_await io::for_each_parallel(4, 4, [&](std::size_t) -> io::awaitable<void> {
            const struct count {
                std::size_t& ended;
                ~count() { ++ended; }
            } count{ended};
            co_await event.wait();
        });
        co_return policy::result<void>();
    };
    const auto late = run_coroutine(context, io::with_deadline(2ms, all()));
    BOOST_TEST((late.error().code == errc::timed_out));
    BOOST_TEST(ended == 4u);
}

BOOST_AUTO_TEST_CASE(a_flight_is_shared_by_all_who_wait_and_then_forgotten)
{
    asio::io_context context;
    io::single_flight<int> flight;
    int flights = 0;
    const auto fly = [&]() -> io::task<int> {
        co_await yield();
        co_return ++flights;
    };
    std::vector<int> answers;
    run_coroutine(context, io::for_each_parallel(50, 50, [&](std::size_t) -> io::awaitable<void> {
                      const auto answer = co_await flight.run(fly);
                      answers.push_back(answer.value());
                  }));
    BOOST_TEST((answers == std::vector<int>(50, 1)));
    BOOST_TEST(run_coroutine(context, flight.run(fly)).value() == 2);
}

BOOST_AUTO_TEST_CASE(a_flight_survives_those_who_gave_up)
{
    asio::io_context context;
    io::async_event event(context.get_executor());
    io::single_flight<void> flight;
    bool landed = false;
    const auto fly = [&]() -> io::task<void> {
        co_await event.wait();
        landed = true;
        co_return policy::result<void>();
    };
    const auto late = run_coroutine(context, io::with_deadline(2ms, flight.run(fly)));
    BOOST_TEST((late.error().code == errc::timed_out));
    event.set();
    BOOST_TEST(run_coroutine(context, flight.run(fly)).has_value());
    BOOST_TEST(landed);
}

BOOST_AUTO_TEST_CASE(a_flight_hands_its_failure_and_its_exception_to_all)
{
    asio::io_context context;
    io::single_flight<int> flight;
    BOOST_TEST((run_coroutine(context, flight.run(failing)).error() == some_failure()));
    BOOST_CHECK_THROW(run_coroutine(context, flight.run(throwing)), std::logic_error);
}

BOOST_AUTO_TEST_CASE(virtual_time_jumps_in_the_order_of_waking)
{
    asio::io_context context;
    support::manual_clock clock;
    const auto start = clock.now();
    std::vector<int> order;
    run_coroutine(
        context, clock, io::for_each_parallel(3, 3, [&](std::size_t i) -> io::awaitable<void> {
            const std::array spans{std::chrono::hours(720), std::chrono::hours(1), std::chrono::hours(48)};
            (void)co_await clock.sleep_for(spans[i]);
            order.push_back(static_cast<int>(i));
        }));
    BOOST_TEST((order == std::vector<int>{1, 2, 0}));
    BOOST_TEST((clock.now() == start + std::chrono::hours(720)));
    BOOST_TEST(clock.slept.size() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
