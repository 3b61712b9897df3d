#include "policy/forecast.hpp"

#include "policy/facts.hpp"
#include "policy/plan.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

// The forecast for a year, derived from plan and apply alone.

namespace {

using namespace std::chrono_literals;
using policy::forecast_action;
using policy::word_of;
using std::chrono::days;
using support::policy_world;
using support::stage;

constexpr policy::duration year = days(365);

policy::forecast_result forecast(const policy_world& w, policy::duration time = year)
{
    return policy::forecast(w.desired, w.stored, w.now, w.now + time);
}

// "rotate web 42, retire web 43": action, user, days from now.
std::string told(const policy_world& w, policy::duration time = year)
{
    std::string text;
    for (const auto& e : forecast(w, time).entries)
        text += (text.empty() ? "" : ", ") + std::string(word_of(e.action)) + " " + e.name.user + " " +
                std::to_string((e.at - w.now) / days(1));
    return text;
}

policy::forecast_entry first(const policy_world& w, forecast_action action)
{
    const auto all = forecast(w).entries;
    const auto found = std::ranges::find(all, action, &policy::forecast_entry::action);
    BOOST_REQUIRE(found != all.end());
    return *found;
}

BOOST_AUTO_TEST_SUITE(forecast_of_the_policy)

// 90 days, issued ten days ago: due between 29.7 days (a third) and 4.5 days of spread before expiry.
BOOST_AUTO_TEST_CASE(rotations_and_retirements)
{
    policy_world w;
    const auto& g = w.in_use();
    const auto due =
        policy::rotate_at(*g.certificate, w.want().rotation.renew_before, "web-01", {"logs", "web"}).at;
    const auto all = forecast(w).entries;
    BOOST_REQUIRE(all.size() >= 10);
    BOOST_TEST(word_of(all[0].action) == "rotate");
    BOOST_TEST((all[0].at == due));
    BOOST_TEST(all[0].reason == "rotation_due");
    BOOST_TEST(all[0].sentence == "its certificate expires at 2027-04-05T08:00:00Z");
    BOOST_TEST(word_of(all[1].action) == "retire");
    BOOST_TEST((all[1].at == due + 24h));
    BOOST_TEST(all[1].sentence == "logs-orion-web-aaaaaaaa was replaced at " + std::string("2027-03-") +
                                      all[1].sentence.substr(all[1].sentence.size() - 12));
    // each later rotation starts from the certificate before it
    for (std::size_t i = 2; i < all.size(); ++i) {
        BOOST_TEST(word_of(all[i].action) == (i % 2 ? "retire" : "rotate"));
        BOOST_TEST((all[i].at - all[i - 2].at >= days(90) * 62 / 100));
        BOOST_TEST((all[i].at - all[i - 2].at <= days(90) * 68 / 100));
    }
    // deterministic: nothing is random
    BOOST_TEST((forecast(w).entries == all));
    BOOST_TEST((forecast(w, 30 * 24h).entries.empty()));
}

BOOST_AUTO_TEST_CASE(every_date_is_the_plans_own)
{
    policy_world w;
    w.in_use();
    w.superseded(2h);
    const auto retired = first(w, forecast_action::retire);
    BOOST_TEST((retired.at == w.now + 22h));
    auto then = w;
    then.now = retired.at - 1s;
    BOOST_TEST(then.steps() == "");
    then.now = retired.at;
    BOOST_TEST(then.steps() == "retire web 0");

    const auto rotated = first(w, forecast_action::rotate);
    then = w;
    then.stored.users[{"logs", "web"}].generations.erase(
        then.stored.users[{"logs", "web"}].generations.begin());
    then.seen().users.erase(then.seen().users.begin());
    then.now = rotated.at - 1s;
    BOOST_TEST(then.steps() == "");
    then.now = rotated.at;
    BOOST_TEST(then.steps() == "issue web");
}

BOOST_AUTO_TEST_CASE(one_row_of_each_kind)
{
    struct row {
        const char* name;
        void (*change)(policy_world&);
        const char* told;  // expected entries for the next 40 days
    };
    const row rows[] = {
        {"new user", [](policy_world& w) { w.want(); }, "create web 0"},
        {"on its way", [](policy_world& w) { w.on_its_way(stage::accepted); }, ""},
        {"sent, no answer", [](policy_world& w) { w.on_its_way(stage::sent); }, ""},
        {"paused: nothing before its end",
         [](policy_world& w) {
             w.in_use();
             w.want().rotation.paused = true;
         },
         ""},
        {"paused, to its end",
         [](policy_world& w) {
             w.in_use().certificate->not_after = w.now + days(30);
             w.want().rotation.paused = true;
         },
         "expire web 30"},
        {"rotation asked for",
         [](policy_world& w) {
             w.in_use();
             w.have().rotate_asked_at = w.now;
         },
         "rotate web 0, retire web 1"},
        {"at once",
         [](policy_world& w) {
             w.in_use();
             w.have().rotate_asked_at = w.now;
             w.have().retire_now = true;
         },
         "rotate web 0, retire web 0"},
        {"another consumer group",
         [](policy_world& w) {
             w.in_use();
             w.want().consumer_group = "other";
         },
         "rotate web 0, retire web 1"},
        {"replaced, not doubled",
         [](policy_world& w) {
             w.in_use();
             w.want().consumer_group = "other";
             w.want().rotation.strategy = policy::strategy::replace;
         },
         "rotate web 0"},
        {"lost on the platform", [](policy_world& w) { w.in_use().missing_since = w.now; }, "rotate web 0"},
        {"budget spent",
         [](policy_world& w) {
             w.in_use().certificate->not_after = w.now + days(1);
             w.have().blocked = policy::verdict{.reason = "budget_spent", .sentence = "", .since = w.now};
         },
         "expire web 1"},
        {"failing, tried again later",
         [](policy_world& w) {
             w.in_use();
             w.want().consumer_group = "other";
             w.have().failure = w.fails("web", policy::retry::later, 25h);
         },
         "rotate web 1, retire web 2"},
        {"hooks failing: not retired before they pass",
         [](policy_world& w) {
             w.in_use();
             w.superseded(48h);
             w.at("web", 'a').deployed_at.reset();
             w.have().deploy_failure = w.fails("web", policy::retry::later, 48h);
         },
         "retire web 3"},
        {"no longer named",
         [](policy_world& w) {
             w.in_use();
             w.drop("web");
         },
         "remove web 1"},
        {"no longer named, kept",
         [](policy_world& w) {
             w.in_use();
             w.drop("web");
             w.desired.reconcile.prune = false;
         },
         ""},
        {"its exposure is gone from the file",
         [](policy_world& w) {
             w.in_use();
             w.desired.exposures.clear();
         },
         "remove web 1"},
        {"more than max_deletes",
         [](policy_world& w) {
             for (const char* user : {"one", "two"}) {
                 w.in_use(user, user[0] == 'o' ? '1' : '2');
                 w.drop(user);
             }
             w.desired.reconcile.max_deletes = 1;
         },
         ""},
        {"copied from another machine",
         [](policy_world& w) {
             w.in_use().certificate->not_after = w.now + days(2);
             w.stored.cloned = true;
         },
         "expire web 2"},
        {"no instance yet",
         [](policy_world& w) {
             w.want();
             w.stored.exposures.clear();
         },
         "create web 0"},
        {"no instance, and not ours to create",
         [](policy_world& w) {
             w.want();
             w.stored.exposures.clear();
             w.exposure().create_instance = false;
         },
         "create web 0"},
    };
    for (const auto& r : rows)
        BOOST_TEST_CONTEXT(r.name)
        {
            policy_world w;
            r.change(w);
            BOOST_TEST(told(w, days(40)) == std::string(r.told));
        }
}

BOOST_AUTO_TEST_CASE(what_a_picture_begins_with)
{
    policy_world w;
    w.in_use("served", '1');
    w.want("new");
    w.in_use("ended", '2').certificate->not_after = w.now - 1s;
    w.in_use("dropped", '3');
    w.drop("dropped");
    std::string rows;
    for (const auto& u : forecast(w).users)
        rows += u.name.user + (u.served ? " served, " : ", ");
    BOOST_TEST(rows == "served served, new, ended, dropped served, ");

    auto some = forecast(w);
    policy::add(some,
                {{.at = w.now, .name = {}, .action = forecast_action::login, .reason = "r", .sentence = {}}});
    policy::keep_only(some, {{"logs", "new"}});
    BOOST_TEST(some.users.size() == 1U);
    BOOST_TEST(word_of(some.entries.front().action) == "login");
    for (const auto& e : some.entries)
        BOOST_TEST((e.name.user.empty() || e.name.user == "new"));
}

// The forecast assumes the lifetime that the platform granted last.
BOOST_AUTO_TEST_CASE(lifetime)
{
    policy_world w;
    w.in_use("web").certificate->expiration_date = w.now + days(5);  // 15 days in total
    const auto all = forecast(w).entries;
    const auto rotations = std::ranges::count(all, forecast_action::rotate, &policy::forecast_entry::action);
    BOOST_TEST(rotations >= 34);
    BOOST_TEST(rotations <= 40);

    policy_world fresh;
    fresh.want();
    BOOST_TEST(told(fresh, days(200)) == "create web 0");
    const auto later = forecast(fresh, days(300)).entries;
    BOOST_TEST(later.size() == 3U);  // one-year certificates, due after 226 to 245 days
}

BOOST_AUTO_TEST_CASE(a_thousand_users_of_short_lives_end)
{
    policy_world w;
    w.in_use().certificate->not_after = w.now + 60s - days(10);
    BOOST_TEST(forecast(w, policy::longest_forecast).entries.size() < 100'000U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
