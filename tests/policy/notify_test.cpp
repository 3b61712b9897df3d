#include "policy/notify.hpp"

#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>

// Which notifications are sent, and when: a table of cases, and one story from start to end.

namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::notify_state;
using policy::retry;
using support::policy_world;

// A world, the state of its login, and the notifications sent so far.
struct told_world : policy_world {
    told_world()
    {
        want();
        desired.notify.command = {"/usr/local/bin/page-me"};
        desired.notify.expiry_warning = 14 * 24h;
        desired.notify.repeat = 24h;
    }

    policy::notify_decision decide() const
    {
        const policy::notify_facts facts{
            .desired = desired, .stored = stored, .login = login, .diagnostics = diagnostics};
        return policy::notifications(facts, memory, now);
    }

    // Sends what is due; returns it as "raised login login, over hook logs/web".
    std::string tell()
    {
        const auto decision = decide();
        memory = decision.memory;
        std::string text;
        for (const auto& due : decision.due) {
            text += (text.empty() ? "" : ", ") + std::string(policy::word_of(due.state)) + " " +
                    policy::word_of(due.what) + " " + due.subject;
            memory = policy::after_sending(memory, due, now);
        }
        return text;
    }

    policy::generation& failing_hook()
    {
        auto& g = in_use();
        want().hooks = {{.what = policy::hook::kind::restart, .argv = {}, .unit = "vector.service"}};
        g.deployed_at.reset();
        have().deploy_failure = fails("web");
        have().deploy_failure->code = errc::hook_failed;
        return g;
    }

    policy::login_facts login;
    std::vector<std::string> diagnostics;
    policy::notify_memory memory;
};

struct row {
    const char* what;
    std::function<void(told_world&)> given;
    const char* at_once;
    const char* after_an_hour;
};

BOOST_AUTO_TEST_SUITE(notify)

BOOST_AUTO_TEST_CASE(which_cases_exist)
{
    const std::vector<row> rows = {
        {"in order", [](told_world& w) { w.in_use(); }, "", ""},
        {"login over",
         [](told_world& w) {
             w.in_use();
             w.login = {.required = true, .sentence = "not logged in"};
         },
         "raised login login", ""},
        {"login failing",
         [](told_world& w) {
             w.in_use();
             w.login = {.failing = true, .sentence = "login server answered 503"};
         },
         "", "raised login login"},
        {"login failing for two hours",
         [](told_world& w) {
             w.in_use();
             w.login = {.failing = true, .sentence = "login server answered 503", .since = w.now - 2h};
         },
         "raised login login", ""},
        {"user blocked",
         [](told_world& w) {
             w.in_use();
             w.have().blocked = policy::verdict{"budget_spent", "three in a day", w.now - 5min};
         },
         "raised blocked logs/web", ""},
        {"user paused, as the file says",
         [](told_world& w) {
             w.in_use();
             w.have().blocked = policy::verdict{"paused", "paused", w.now};
         },
         "", ""},
        {"refused for good", [](told_world& w) { w.have().failure = w.fails("web", retry::never); },
         "raised blocked logs/web", ""},
        {"failing, and retried", [](told_world& w) { w.have().failure = w.fails("web"); }, "", ""},
        {"blocked because the login is over, told once",
         [](told_world& w) {
             w.login = {.required = true, .sentence = "not logged in"};
             w.have().failure = w.fails("web", retry::never);
             w.have().failure->code = errc::login_required;
         },
         "raised login login", ""},
        {"a login that was over at the last pass",
         [](told_world& w) {
             w.in_use();
             w.known().failure = w.fails("web", retry::never);
             w.known().failure->code = errc::login_required;
         },
         "", ""},
        {"exposure blocked, and its users with it",
         [](told_world& w) {
             w.known().blocked = policy::verdict{"instance_missing", "the instance is gone", w.now};
         },
         "raised blocked logs", ""},
        {"exposure refused",
         [](told_world& w) {
             w.in_use();
             w.known().failure = w.fails("web", retry::after_change);
             w.known().failure->code = errc::forbidden;
         },
         "raised blocked logs", ""},
        {"exposure down",
         [](told_world& w) {
             w.in_use();
             w.known().failure = w.fails("web");
         },
         "", ""},
        {"copied from another machine",
         [](told_world& w) {
             w.in_use();
             w.stored.cloned = true;
             w.known().blocked = policy::verdict{"cloned", "copied", w.now};
         },
         "raised blocked state directory", ""},
        {"hook failing", [](told_world& w) { w.failing_hook(); }, "", "raised hook logs/web"},
        {"certificate close to expiry",
         [](told_world& w) {
             w.in_use();
             w.now += 67 * 24h;
         },
         "raised expiry logs/web", ""},
        {"certificate with a day more than that",
         [](told_world& w) {
             w.in_use();
             w.now += 65 * 24h;
         },
         "", ""},
        {"certificate close to expiry, of a user that is being removed",
         [](told_world& w) {
             w.in_use();
             w.drop("web");
             w.now += 70 * 24h;
         },
         "", ""},
        {"wrong configuration",
         [](told_world& w) {
             w.in_use();
             w.diagnostics = {"agent.yaml:3:1: unknown key"};
         },
         "", "raised configuration configuration"},
    };
    for (const auto& r : rows) {
        told_world w;
        r.given(w);
        BOOST_TEST_CONTEXT(r.what)
        {
            BOOST_TEST(w.tell() == r.at_once);
            w.now += 59min;
            BOOST_TEST(w.tell() == "");
            w.now += 1min;
            BOOST_TEST(w.tell() == r.after_an_hour);
        }
    }
}

BOOST_AUTO_TEST_CASE(raised_once_repeated_and_over)
{
    told_world w;
    w.in_use();
    w.login = {.required = true, .sentence = "not logged in"};
    BOOST_TEST(w.tell() == "raised login login");
    const auto since = w.memory.cases.at(0).since;
    w.now += 23h;
    BOOST_TEST(w.tell() == "");
    BOOST_TEST((w.decide().wake_at == since + 24h));
    w.now += 1h;
    w.login.sentence = "the refresh token is expired";
    const auto again = w.decide().due.at(0);
    BOOST_TEST((again.state == notify_state::repeated));
    BOOST_TEST((again.since == since));
    BOOST_TEST(again.message == "the refresh token is expired");
    BOOST_TEST(again.remedy == "exposure-agent login");
    BOOST_TEST(w.tell() == "repeated login login");
    w.now += 1h;
    w.login = {};
    BOOST_TEST(w.decide().due.at(0).message == "the login works again");
    BOOST_TEST(w.tell() == "over login login");
    BOOST_TEST(w.memory.cases.empty());
    BOOST_TEST(w.tell() == "");
    BOOST_TEST(w.memory.sent == 3);
}

BOOST_AUTO_TEST_CASE(what_ends_before_it_is_told_is_not_told)
{
    told_world w;
    w.failing_hook();
    BOOST_TEST(w.tell() == "");
    BOOST_TEST(w.memory.cases.size() == 1u);
    BOOST_TEST((w.decide().wake_at == w.now + 1h));
    w.now += 30min;
    w.have().deploy_failure.reset();
    BOOST_TEST(w.tell() == "");
    BOOST_TEST(w.memory.cases.empty());
    w.have().deploy_failure = w.fails("web");
    w.now += 45min;
    BOOST_TEST(w.tell() == "");
}

BOOST_AUTO_TEST_CASE(a_login_that_fails_and_then_ends_is_one_case)
{
    told_world w;
    w.in_use();
    w.login = {.failing = true, .sentence = "login server answered 503", .since = w.now};
    BOOST_TEST(w.tell() == "");
    w.now += 10min;
    w.login = {.required = true, .sentence = "not logged in"};
    BOOST_TEST(w.tell() == "raised login login");
}

BOOST_AUTO_TEST_CASE(told_only_once_it_is_sent)
{
    told_world w;
    w.in_use();
    w.login = {.required = true, .sentence = "not logged in"};
    const policy::failure down{.code = errc::hook_failed, .context = "hooks.example.com answered 503"};
    auto decision = w.decide();
    BOOST_TEST(decision.due.size() == 1u);
    w.memory = policy::after_sending(decision.memory, down, w.now);
    BOOST_TEST(w.memory.failed == 1);
    BOOST_TEST((w.memory.failing_since == w.now));
    const auto next = w.memory.failure->next_attempt.value();
    BOOST_TEST((next > w.now));
    decision = w.decide();
    BOOST_TEST(decision.due.empty());
    BOOST_TEST((decision.wake_at == next));
    w.now = next;
    BOOST_TEST(w.decide().due.size() == 1u);
    w.memory = policy::after_sending(w.memory, down, w.now);
    BOOST_TEST((w.memory.failure->next_attempt.value() - w.now > 5s));
    w.now = w.memory.failure->next_attempt.value();
    BOOST_TEST(w.tell() == "raised login login");
    BOOST_TEST(!w.memory.failure);
    BOOST_TEST(!w.memory.failing_since);
}

// Otherwise the host would report a failure forever that no later notification can end.
BOOST_AUTO_TEST_CASE(nothing_is_unsent_once_the_case_is_over)
{
    told_world w;
    w.in_use();
    w.login = {.required = true, .sentence = "not logged in"};
    const policy::failure down{.code = errc::hook_failed, .context = "hooks.example.com answered 503"};
    w.memory = policy::after_sending(w.decide().memory, down, w.now);
    w.memory = w.decide().memory;
    BOOST_TEST(w.memory.failure.has_value());
    w.login = {};
    BOOST_TEST(w.tell() == "");
    BOOST_TEST(!w.memory.failure);
    BOOST_TEST(!w.memory.failing_since);
}

BOOST_AUTO_TEST_CASE(an_end_that_could_not_be_sent_is_sent_later_and_not_at_all_if_it_comes_back)
{
    told_world w;
    w.in_use();
    w.login = {.required = true, .sentence = "not logged in"};
    BOOST_TEST(w.tell() == "raised login login");
    w.login = {};
    const policy::failure down{.code = errc::hook_failed, .context = "down"};
    w.memory = policy::after_sending(w.decide().memory, down, w.now);
    w.now += 1min;
    auto back = w;
    BOOST_TEST(w.tell() == "over login login");
    back.login = {.required = true, .sentence = "not logged in"};
    BOOST_TEST(back.tell() == "");
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_does_not_silence)
{
    told_world w;
    w.in_use();
    w.login = {.required = true, .sentence = "not logged in"};
    BOOST_TEST(w.tell() == "raised login login");
    w.now -= 365 * 24h;
    BOOST_TEST(w.tell() == "");
    w.now += 24h;
    BOOST_TEST(w.tell() == "repeated login login");
}

BOOST_AUTO_TEST_CASE(no_case_of_expiry_is_older_than_its_certificate_in_use)
{
    told_world w;
    const auto published = w.in_use().published_at;
    w.desired.notify.expiry_warning = 365 * 24h;
    BOOST_TEST((w.decide().due.at(0).since == published));
    w.desired.notify.expiry_warning = 14 * 24h;
    w.now += 67 * 24h;
    BOOST_TEST((w.decide().due.at(0).since == w.have().generations.front().certificate->expiry() - 14 * 24h));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
