#include "policy/limits.hpp"
#include "policy/observed.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <set>
#include <utility>

// What a pass reads from the platform: its own users by id, or the whole list.

namespace {

using namespace std::chrono_literals;
using support::policy_world;

policy::inquiry ask(policy_world& w)
{
    return policy::inquiry_of(w.desired, w.exposure(), w.stored, w.now);
}

// One user, in use for a long time and listed just now.
policy_world quiet()
{
    policy_world w;
    w.in_use();
    w.known().listed_at = w.now;
    return w;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(inquiry)

BOOST_AUTO_TEST_CASE(what_is_ours_is_read_by_id)
{
    auto w = quiet();
    const auto asked = ask(w);
    BOOST_TEST(!asked.list);
    BOOST_TEST(!asked.due);
    BOOST_TEST(asked.ids == std::vector<std::string>{"u-a"}, boost::test_tools::per_element());
    BOOST_TEST(asked.instance == "i-1");
    BOOST_CHECK(asked.next_list == policy::next_list_after(w.stored.owner, "logs", w.now));
}

BOOST_AUTO_TEST_CASE(what_only_the_list_can_tell)
{
    struct row {
        const char* what;
        std::function<void(policy_world&)> change;
        bool list;
        bool due;
    };
    const auto& settle = policy_world().desired.reconcile.settle;
    const row table[] = {
        {"no known instance", [](auto& w) { w.known().where.instance_id.clear(); }, true, false},
        {"its record cannot be read", [](auto& w) { w.known().unreadable = "damaged"; }, true, false},
        {"another tenant", [](auto& w) { w.exposure().tenant = "vega"; }, true, false},
        {"another variant", [](auto& w) { w.exposure().variant = policy::variant::health; }, true, false},
        {"never listed", [](auto& w) { w.known().listed_at.reset(); }, true, true},
        {"listed in the future", [](auto& w) { w.known().listed_at = w.now + 1s; }, true, true},
        {"listed a day ago", [](auto& w) { w.known().listed_at = w.now - 24h; }, true, true},
        {"its id is not known", [](auto& w) { w.at("web", 'a').remote_id.clear(); }, true, false},
        {"it was gone", [](auto& w) { w.at("web", 'a').missing_since = w.now; }, true, false},
        {"never sent", [](auto& w) { w.on_its_way(support::stage::kept); }, true, false},
        {"on its way", [](auto& w) { w.on_its_way(support::stage::accepted); }, false, false},
        {"a double may show", [&](auto& w) { w.on_its_way(support::stage::ready).submitted_at = w.now - 1s; },
         false, false},
        {"a double would have shown",
         [&](auto& w) {
             auto& g = w.on_its_way(support::stage::ready);
             g.submitted_at = g.accepted_at = w.now - settle;
             w.known().listed_at = w.now - 1s;
         },
         true, true},
        {"counted from its answer",
         [&](auto& w) {
             auto& g = w.on_its_way(support::stage::ready);
             g.submitted_at = w.now - settle - 5s;
             g.accepted_at = w.now - settle;
             w.known().listed_at = w.now - 1s;
         },
         true, true},
        {"left the file a moment ago",
         [](auto& w) {
             w.have().unwanted_since = w.now;
             w.drop("web");
         },
         false, false},
        {"to be removed",
         [](auto& w) {
             w.have().unwanted_since = w.now - 24h;
             w.drop("web");
         },
         true, false},
        {"a deletion failed", [](auto& w) { w.have().clear_failure = w.fails("web"); }, true, false},
        {"one damaged record", [](auto& w) { w.have("mail").unreadable = "damaged"; }, true, false},
        {"twenty users",
         [](auto& w) {
             for (std::size_t i = 1; i < policy::limits::read_by_id; ++i)
                 w.have("u" + std::to_string(i));
         },
         false, false},
        {"more than twenty users",
         [](auto& w) {
             for (std::size_t i = 0; i < policy::limits::read_by_id; ++i)
                 w.have("u" + std::to_string(i));
         },
         true, false},
    };
    for (const auto& [what, change, list, due] : table) {
        auto w = quiet();
        change(w);
        const auto asked = ask(w);
        BOOST_TEST(asked.list == list, what);
        BOOST_TEST(asked.due == due, what);
    }
}

BOOST_AUTO_TEST_CASE(a_user_elsewhere_is_not_asked_for_here)
{
    auto w = quiet();
    w.at("web", 'a').where.tenant = "vega";
    BOOST_TEST(ask(w).ids.empty());
    BOOST_TEST(!ask(w).list);
}

BOOST_AUTO_TEST_CASE(a_fleet_lists_at_all_times_of_the_day)
{
    const policy::instant start(policy::duration(1'800'000'000));
    std::set<std::int64_t> hours;
    for (int host = 0; host < 500; ++host) {
        const auto owner = "web-" + std::to_string(host);
        const auto next = policy::next_list_after(owner, "logs", start);
        BOOST_TEST((next > start && next <= start + 24h));
        BOOST_CHECK(policy::next_list_after(owner, "logs", next) == next + 24h);
        BOOST_CHECK(policy::next_list_after(owner, "logs", next - 1s) == next);
        hours.insert((next - start) / 1h);
    }
    BOOST_TEST(hours.size() == 24u);
}

// Runs passes at their turns from then on, the first one within two minutes; returns when one fetches the
// list.
policy::instant first_list(policy_world& w, policy::instant start, policy::duration delay)
{
    auto previous = start;
    for (auto pass = start + delay;; pass = policy::next_turn(w.stored.owner, "logs", 15min, pass)) {
        const auto asked =
            policy::inquiry_of(w.desired, w.exposure(), w.stored, pass, std::exchange(previous, pass));
        if (asked.list || pass > start + 72h) return pass;
    }
}

BOOST_AUTO_TEST_CASE(lists_that_were_missed_are_spread_over_the_time_to_catch_up)
{
    std::map<std::int64_t, int> hours;
    for (int host = 0; host < 500; ++host) {
        auto w = quiet();
        w.stored.owner = "web-" + std::to_string(host);
        w.known().listed_at = w.now - 30h;
        BOOST_TEST(ask(w).list);  // a one-shot run lists at once
        const auto listed = first_list(w, w.now, policy::duration(host % 120));
        BOOST_TEST((listed < w.now + policy::limits::list_catch_up + 15min));
        ++hours[(listed - w.now) / 1h];
    }
    // also in the first hour no more than in another one
    for (const auto& [hour, hosts] : hours)
        BOOST_TEST(hosts < 500 / 6, hour);
    BOOST_TEST(hours.size() >= 18u);
}

BOOST_AUTO_TEST_CASE(a_schedule_that_is_not_interrupted_lists_at_the_same_time_every_day)
{
    for (int host = 0; host < 50; ++host) {
        auto w = quiet();
        w.stored.owner = "web-" + std::to_string(host);
        auto listed = w.now;
        for (int day = 0; day < 3; ++day) {
            w.known().listed_at = listed;
            const auto slot = policy::next_list_after(w.stored.owner, "logs", listed);
            listed = first_list(w, listed, 1s);
            BOOST_TEST((listed == slot));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_host_that_is_off_at_the_time_of_its_list_catches_up)
{
    for (int host = 0; host < 50; ++host) {
        auto w = quiet();
        w.stored.owner = "web-" + std::to_string(host);
        const auto slot = policy::next_list_after(w.stored.owner, "logs", w.now);
        w.known().listed_at = w.now;
        bool listed = false;
        for (auto on = slot + 1h; !listed && on < slot + 24h * 7; on += 24h) {  // eight hours a day
            auto previous = on;
            for (auto pass = on + 1s; pass < on + 8h;
                 pass = policy::next_turn(w.stored.owner, "logs", 15min, pass))
                listed |=
                    policy::inquiry_of(w.desired, w.exposure(), w.stored, pass, std::exchange(previous, pass))
                        .list;
        }
        BOOST_TEST(listed, w.stored.owner);
    }
}

BOOST_AUTO_TEST_CASE(turns_of_schedules_whose_periods_divide_each_other_coincide)
{
    const policy::instant start(policy::duration(1'800'000'000));
    for (const char* owner : {"web-1", "web-2", "web-3"}) {
        const auto daily = policy::next_turn(owner, "logs", 24h, start);
        for (const policy::duration period :
             {policy::duration(2h), policy::duration(15min), policy::duration(1s)})
            BOOST_CHECK(policy::next_turn(owner, "logs", period, daily - 1s) == daily);
    }
}

// A user that was not queried is not absent.
BOOST_AUTO_TEST_CASE(silence_of_a_partial_observation_is_no_absence)
{
    policy_world w;
    w.want();
    auto& g = w.on_its_way(support::stage::sent);
    g.submitted_at = w.now - 1h;
    BOOST_TEST(w.steps() == "submit web b");
    w.seen().listed = false;
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(w.finding() == "waiting_settle");

    policy_world kept;
    kept.in_use();
    kept.have().held = kept.have().current;
    kept.on_its_way(support::stage::kept);
    BOOST_TEST(kept.steps() == "discard web b");
    kept.seen().listed = false;
    BOOST_TEST(kept.steps() == "abandon web b");
}

BOOST_AUTO_TEST_SUITE_END()
