#include "policy/backoff.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>

namespace {

using namespace std::chrono_literals;
using policy::duration;
using policy::errc;
using policy::retry;

constexpr auto now = policy::instant(1'800'000'000s);

policy::failure failing(retry kind = retry::later, std::optional<duration> retry_after = {})
{
    return {.code = errc::unavailable, .context = "it failed", .kind = kind, .retry_after = retry_after};
}

duration wait_of(const policy::failure_memory& memory)
{
    return *memory.next_attempt - memory.last;
}

BOOST_AUTO_TEST_SUITE(backoff)

BOOST_AUTO_TEST_CASE(each_failure_waits_longer_up_to_half_an_hour)
{
    std::optional<policy::failure_memory> memory;
    int count = 0;
    for (const duration expected :
         {duration(5s), duration(15s), duration(30s), duration(1min), duration(2min), duration(5min),
          duration(10min), duration(15min), duration(30min), duration(30min), duration(30min)}) {
        memory = policy::remember(memory, failing(), "entry", std::nullopt, now);
        BOOST_TEST((wait_of(*memory) == expected));
        BOOST_TEST(memory->count == ++count);
    }
    BOOST_TEST(memory->sentence == "it failed");
    BOOST_TEST((memory->code == errc::unavailable));
}

BOOST_AUTO_TEST_CASE(what_waits_for_somebody_at_this_host_is_looked_at_soon)
{
    const policy::failure foreign{
        .code = policy::errc::foreign_file, .context = "a link", .kind = retry::after_change};
    auto memory = policy::remember({}, foreign, "entry", std::nullopt, now);
    BOOST_TEST((wait_of(memory) == 5s));
    memory = policy::remember(memory, foreign, "entry", std::nullopt, now);
    BOOST_TEST((wait_of(memory) == 15s));
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_change_is_tried_slowly)
{
    for (const auto kind : {retry::after_change, retry::never})
        BOOST_TEST((wait_of(policy::remember({}, failing(kind), "entry", std::nullopt, now)) == 1h));
}

BOOST_AUTO_TEST_CASE(retry_after_is_a_lower_bound)
{
    const auto wait = [](duration asked) {
        return wait_of(policy::remember({}, failing(retry::later, asked), "entry", std::nullopt, now));
    };
    BOOST_TEST((wait(90s) == 90s));
    BOOST_TEST((wait(1s) == 5s));
    const auto late = policy::remember({}, failing(retry::later, 2h), "entry", now + 1min, now);
    BOOST_TEST((wait_of(late) == 2h));
}

BOOST_AUTO_TEST_CASE(ten_attempts_fit_into_what_is_left_of_the_certificate)
{
    const auto wait = [](retry kind, duration left) {
        return wait_of(policy::remember({}, failing(kind), "entry", now + left, now));
    };
    BOOST_TEST((wait(retry::never, 5h) == 30min));
    BOOST_TEST((wait(retry::never, 24h) == 1h));
    BOOST_TEST((wait(retry::never, 20s) == 5s));
    BOOST_TEST((wait(retry::later, 20h) == 5s));
    BOOST_TEST((wait(retry::never, -1h) == 1h));  // already expired: no reason to retry faster
}

BOOST_AUTO_TEST_CASE(a_changed_entry_starts_anew_and_acts_at_once)
{
    auto memory = policy::remember({}, failing(), "entry", std::nullopt, now);
    memory = policy::remember(memory, failing(), "entry", std::nullopt, now);
    BOOST_TEST((policy::not_before(memory, "entry", now) == now + 15s));
    BOOST_TEST((policy::not_before(memory, "changed", now) == std::nullopt));
    BOOST_TEST((policy::not_before(std::nullopt, "entry", now) == std::nullopt));
    // after the clock is set back, do not wait for a time that lies too far ahead
    BOOST_TEST((policy::not_before(memory, "entry", now - 24h) == std::nullopt));
    BOOST_TEST(policy::remember(memory, failing(), "changed", std::nullopt, now).count == 1);
}

BOOST_AUTO_TEST_CASE(a_person_who_waits_sees_three_attempts)
{
    const auto soon = [](const policy::failure& what, int attempt) {
        return policy::soon_again(what, attempt, now);
    };
    BOOST_TEST((soon(failing(), 1) == now + 1s));
    BOOST_TEST((soon(failing(), 2) == now + 3s));
    BOOST_TEST((soon(failing(), 3) == std::nullopt));
    BOOST_TEST((soon(failing(retry::later, 90s), 1) == now + 90s));
    BOOST_TEST((soon(failing(retry::after_change), 1) == std::nullopt));
    auto granting = failing();
    granting.code = errc::probe_refused;
    BOOST_TEST((soon(granting, 9) == now + 5s));
}

BOOST_AUTO_TEST_CASE(failed_attempts_do_not_count_what_is_waited_for)
{
    BOOST_TEST(policy::only_waits(errc::probe_refused, retry::later));
    BOOST_TEST(!policy::only_waits(errc::probe_refused, retry::after_change));
    BOOST_TEST(policy::only_waits(errc::throttled, retry::later));
    BOOST_TEST(!policy::only_waits(errc::disk, retry::later));

    policy::stored_user user;
    BOOST_TEST(policy::failed_attempts(user) == 0);
    user.failure = {.count = 2, .code = errc::disk};
    user.deploy_failure = {.count = 3, .code = errc::hook_failed};
    BOOST_TEST(policy::failed_attempts(user) == 5);
    BOOST_TEST(policy::failures_in(user).back() == &*user.failure);
    user.failure->code = errc::throttled;
    BOOST_TEST(policy::failed_attempts(user) == 3);
    user.deploy_failure.reset();
    user.failure->code = errc::probe_refused;
    BOOST_TEST(policy::failed_attempts(user) == 0);
    user.failure->kind = retry::after_change;
    BOOST_TEST(policy::failed_attempts(user) == 2);
}

// Applies the conclusions of a pass; returns whether there were any.
bool settle(policy::stored_user& user, const policy::decision& view)
{
    const auto events = policy::conclusions(user, view);
    for (const auto& what : events)
        user = policy::apply(std::move(user), what, now);
    return !events.empty();
}

BOOST_AUTO_TEST_CASE(what_came_to_a_good_end_is_no_failure_any_more)
{
    const auto memory = policy::remember({}, failing(), "entry", std::nullopt, now);
    policy::stored_user user{.generations = {{.id = "aaaaaaaa"}}, .current = "aaaaaaaa"};
    user.failure = user.deploy_failure = user.clear_failure = memory;
    policy::decision view{.why = policy::reason::backing_off, .clears = true};
    BOOST_TEST(!settle(user, view));
    view.why = policy::reason::healthy;
    BOOST_TEST(settle(user, view));
    BOOST_TEST((!user.failure && user.deploy_failure && user.clear_failure));
    user.generations.front().deployed_at = now;
    BOOST_TEST(settle(user, view));
    BOOST_TEST((!user.deploy_failure && user.clear_failure));
    view.clears = false;
    BOOST_TEST(settle(user, view));
    BOOST_TEST(!user.clear_failure);
    BOOST_TEST(!settle(user, view));
}

BOOST_AUTO_TEST_CASE(a_login_ends_what_waited_for_it_and_nothing_else)
{
    auto of_login = failing(retry::never);
    of_login.code = errc::login_required;
    auto of_client = failing(retry::after_change);
    of_client.code = errc::client_refused;
    policy::stored_user user;
    policy::stored_exposure exposure;
    BOOST_TEST((!policy::after_login(user) && !policy::after_login(exposure)));
    user.failure = exposure.failure = policy::remember({}, failing(), "entry", std::nullopt, now);
    BOOST_TEST((!policy::after_login(user) && !policy::after_login(exposure)));
    user.clear_failure = user.failure;
    for (const auto& failed : {of_login, of_client}) {
        user.failure = exposure.failure = policy::remember({}, failed, "entry", std::nullopt, now);
        user = policy::apply(std::move(user), policy::after_login(user).value(), now);
        exposure = policy::apply(std::move(exposure), policy::after_login(exposure).value(), now);
        BOOST_TEST((!user.failure && user.clear_failure && !exposure.failure));
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
