#include "agent/service/configuration.hpp"
#include "agent/service/exposure_tasks.hpp"
#include "agent/service/status_view.hpp"
#include "tests/agent/service_support.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <set>

using namespace service_test;
using service::wait_after;

namespace {

struct wait_row {
    const char* what;
    policy::duration wake_in;
    std::optional<policy::duration> back_off;
    std::optional<std::chrono::milliseconds> soon;
    std::chrono::milliseconds expected;
};

std::ostream& operator<<(std::ostream& out, const wait_row& row)
{
    return out << row.what;
}

const wait_row waits[] = {
    {"nothing but the interval", 24h, {}, {}, 15min},
    {"the plan changes earlier", 5min, {}, {}, 5min},
    {"the exposure's back-off ends earlier", 24h, 2min, {}, 2min},
    {"something is on its way", 5min, 2min, 100ms, 100ms},
    {"the interval is before what is on its way", 24h, {}, 1h, 15min},
    {"a plan that is due already does not spin", -3s, {}, {}, 1s},
    {"a back-off that is over does not spin", 24h, 0s, {}, 1s},
};

using at = service::debounce::time_point;

}  // namespace

BOOST_AUTO_TEST_SUITE(service_schedule)

BOOST_DATA_TEST_CASE(waits_after_a_pass, waits, row)
{
    reconcile::pass_outcome outcome;
    outcome.plan.wake_at = now + row.wake_in;
    outcome.soon = row.soon;
    std::optional<policy::failure_memory> failure;
    if (row.back_off) failure = policy::failure_memory{.count = 1, .next_attempt = now + *row.back_off};
    BOOST_TEST(wait_after(outcome, failure, 15min, now).count() == row.expected.count());
}

BOOST_AUTO_TEST_CASE(a_start_is_spread_when_nothing_is_due)
{
    const auto stored = both_in_use();
    const auto desired = two_users();
    const auto view = view_of(desired, stored);
    std::set<std::chrono::milliseconds> delays;
    for (int host = 0; host < 100; ++host) {
        const auto seed = "machine-" + std::to_string(host);
        const auto delay = service::start_delay(view, seed);
        BOOST_TEST((delay >= 0ms && delay <= service::start_spread));
        BOOST_TEST((delay == service::start_delay(view, seed)));
        delays.insert(delay);
    }
    BOOST_TEST(delays.size() > 90u);
}

BOOST_AUTO_TEST_CASE(a_start_with_something_due_waits_for_nothing)
{
    const auto desired = two_users();
    auto missing = both_in_use();
    missing.users.erase({"logs", "two"});
    auto expired = both_in_use();
    expired.users.at({"logs", "one"}).generations.front().certificate->not_after = now - 1s;
    for (const auto& stored : {missing, expired})
        for (const char* seed : {"a", "b", "c"})
            BOOST_TEST((service::start_delay(view_of(desired, stored), seed) == 0ms));
}

BOOST_AUTO_TEST_CASE(one_event_is_acted_on_when_it_is_quiet)
{
    service::debounce burst;
    const at start{};
    BOOST_TEST(!burst.due().has_value());
    burst.happened(start);
    BOOST_TEST((burst.due() == start + service::debounce::quiet));
    burst.done();
    BOOST_TEST(!burst.due().has_value());
}

BOOST_AUTO_TEST_CASE(a_burst_is_one_but_not_for_ever)
{
    service::debounce burst;
    const at start{};
    at last = start;
    for (; last < start + 10s; last += 100ms)
        burst.happened(last);
    BOOST_TEST((burst.due() == start + service::debounce::longest));
    burst.done();
    burst.happened(last);
    BOOST_TEST((burst.due() == last + service::debounce::quiet));
}

// Timers that expire at the same check fire in order of their deadlines, not of their creation.
BOOST_AUTO_TEST_CASE(alarms_wake_in_order_and_by_event)
{
    using service::timers;
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    auto wall = timers::wall::time_point() + 1000h;
    timers clock(
        context.get_executor(), stop, 1ms, [&] { wall += 3h; }, [&] { return wall; });
    io::async_event late(context.get_executor());
    io::async_event early(context.get_executor());
    io::async_event told(context.get_executor());
    std::string order;
    const auto wait = [&](std::chrono::milliseconds duration, io::async_event& event,
                          char mark) -> io::awaitable<void> {
        co_await clock.wait(duration, event);
        order += mark;
        if (order.size() == 3) stop.request();
    };
    boost::asio::co_spawn(context, wait(2h, late, 'l'), boost::asio::detached);
    boost::asio::co_spawn(context, wait(1h, early, 'e'), boost::asio::detached);
    boost::asio::co_spawn(context, wait(1000h, told, 't'), boost::asio::detached);
    boost::asio::co_spawn(context, clock.run(), boost::asio::detached);
    told.set();
    context.run();
    BOOST_TEST(order == "tel");
}

// After suspend or a clock change, a sleeper wakes at the next check or at its deadline.
BOOST_AUTO_TEST_CASE(alarms_go_by_the_wall_clock_too)
{
    using service::timers;
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    auto wall = timers::wall::time_point() + 1000h;
    int looks = 0;
    timers clock(
        context.get_executor(), stop, 5ms,
        [&] {
            ++looks;
            wall += looks == 1 ? -500h : 503h;
        },
        [&] { return wall; });
    io::async_event rotation(context.get_executor());
    const auto wait = [&]() -> io::awaitable<void> {
        co_await clock.wait(2h, rotation);
        stop.request();
    };
    boost::asio::co_spawn(context, clock.run(), boost::asio::detached);
    boost::asio::co_spawn(context, wait(), boost::asio::detached);
    context.run();
    BOOST_TEST(looks >= 2);
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_delays_nobody)
{
    using service::timers;
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    auto wall = timers::wall::time_point() + 1000h;
    timers clock(
        context.get_executor(), stop, 1h, [] {}, [&] { return wall; });
    io::async_event rotation(context.get_executor());
    const auto wait = [&]() -> io::awaitable<void> {
        co_await clock.wait(20ms, rotation);
        stop.request();
    };
    boost::asio::co_spawn(context, clock.run(), boost::asio::detached);
    boost::asio::co_spawn(context, wait(), boost::asio::detached);
    context.poll();
    wall -= 500h;
    context.run();
    BOOST_TEST(rotation.is_set());
}

BOOST_AUTO_TEST_CASE(the_status_line_names_the_next_rotation)
{
    const auto desired = two_users();
    const auto stored = both_in_use();
    const auto line = service::status_line(view_of(desired, stored), now);
    BOOST_TEST(line.starts_with("2 certificates ok, next rotation logs/"));
    BOOST_TEST(line.ends_with(" d"));
}

BOOST_AUTO_TEST_CASE(the_status_line_says_what_is_wrong)
{
    const auto desired = two_users();
    auto stored = both_in_use();
    stored.users.erase({"logs", "two"});
    BOOST_TEST(service::status_line(view_of(desired, stored), now).starts_with("1 of 2 certificates ok"));
    BOOST_TEST(service::status_line(view_of(desired, stored, platform::login_state::required), now)
                   .ends_with("not logged in; run: exposure-agent login"));
    auto refused = view_of(desired, stored, platform::login_state::required);
    refused.login.sentence = "invalid_client: check identity.client_secret";
    BOOST_TEST(
        service::status_line(refused, now).ends_with("; invalid_client: check identity.client_secret"));
}

BOOST_AUTO_TEST_CASE(an_edit_is_applied_when_it_changes_something)
{
    const auto before = two_users();
    auto after = before;
    BOOST_TEST(!service::edit_of(before, {.state = before}).desired);
    after.exposures.front().users.pop_back();
    const auto edit = service::edit_of(before, {.state = after});
    BOOST_REQUIRE(edit.desired);
    BOOST_TEST((*edit.desired == after));
}

BOOST_AUTO_TEST_CASE(a_mistake_changes_nothing)
{
    const auto edit = service::edit_of(
        two_users(), {.errors = {{.file = "agent.yaml", .line = 3, .column = 5, .text = "unknown key"}}});
    BOOST_TEST(!edit.desired);
    BOOST_TEST(edit.diagnostics == std::vector<std::string>{"agent.yaml:3:5: unknown key"},
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(some_keys_need_a_restart)
{
    const auto before = two_users();
    auto moved = before;
    moved.state_dir = "/srv/state";
    auto renamed = before;
    renamed.owner = "web-02";
    auto external = before;
    external.identity.access_token = policy::secret_source{.name = "/run/token"};
    for (const auto& after : {moved, renamed, external}) {
        const auto edit = service::edit_of(before, {.state = after});
        BOOST_TEST(!edit.desired);
        BOOST_TEST(edit.restart.find("restart") != std::string::npos);
    }
}

BOOST_AUTO_TEST_SUITE_END()
