#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>

// What is cleaned up alongside a user's own step, and what never is.

namespace {

using namespace std::chrono_literals;
using policy::output_condition;
using support::policy_world;
using support::stage;

struct row {
    const char* what;
    std::function<void(policy_world&)> given;
    const char* steps;
};

void check(const std::vector<row>& rows)
{
    for (const auto& r : rows) {
        BOOST_TEST_CONTEXT(r.what)
        {
            policy_world w;
            w.in_use();
            r.given(w);
            BOOST_TEST(w.steps() == r.steps);
        }
    }
}

BOOST_AUTO_TEST_SUITE(clearing)

BOOST_AUTO_TEST_CASE(what_was_replaced_goes_after_retire_after)
{
    check({
        {"its time has come", [](policy_world& w) { w.superseded(24h); }, "retire web 0"},
        {"its successor was replaced, too, a moment ago: its own time counts",
         [](policy_world& w) {
             w.superseded(24h);
             w.superseded(1h, "web", '1').deployed_at = w.now - 24h;
         },
         "retire web 0"},
        {"... which is not over yet",
         [](policy_world& w) {
             w.superseded(24h);
             w.superseded(1h, "web", '1').deployed_at = w.now - 23h;
         },
         ""},
        {"a second too early", [](policy_world& w) { w.superseded(24h - 1s); }, ""},
        {"no overlap wanted",
         [](policy_world& w) {
             w.superseded(0s);
             w.want().rotation.retire_after = 0s;
         },
         "retire web 0"},
        {"--retire-now",
         [](policy_world& w) {
             w.superseded(1s);
             w.have().retire_now = true;
         },
         "retire web 0"},
        {"the successor's hooks have not passed",
         [](policy_world& w) {
             w.superseded(48h);
             w.at("web", 'a').deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
         },
         ""},
        {"... not even with --retire-now",
         [](policy_world& w) {
             w.superseded(48h);
             w.at("web", 'a').deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
             w.have().retire_now = true;
         },
         ""},
        {"the published directory is not in order",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().output = output_condition::damaged;
             w.have().failure = w.fails("web");
             w.have().failure->code = policy::errc::disk_full;
         },
         ""},
        {"the disk did not keep what was done",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().failure = w.fails("web");
             w.have().failure->code = policy::errc::disk_full;
         },
         ""},
        {"... nor that the hooks have passed",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().deploy_failure = w.fails("web");
             w.have().deploy_failure->code = policy::errc::disk_full;
         },
         ""},
        {"it is gone already",
         [](policy_world& w) {
             w.superseded(1s).missing_since = w.now;
             w.vanish("u-0");
         },
         "retire web 0"},
        {"it was deleted by somebody",
         [](policy_world& w) {
             w.superseded(48h);
             w.vanish("u-0");
         },
         "retire web 0"},
        {"it was taken for gone, and is there again: deleted before its key is",
         [](policy_world& w) { w.superseded(24h).missing_since = w.now; }, "retire_surplus web 0 u-0"},
        {"... but not before retire_after", [](policy_world& w) { w.superseded(1h).missing_since = w.now; },
         ""},
        {"its retirement failed just now",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().clear_failure = w.fails("web");
         },
         ""},
        {"a failure of the next certificate does not stop it",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().failure = w.fails("web");
         },
         "retire web 0"},
        {"it is not shown, and nobody said 404",
         [](policy_world& w) {
             w.superseded(48h);
             w.vanish("u-0");
             w.seen().confirmed_missing.clear();
         },
         ""},
        {"two at once",
         [](policy_world& w) {
             w.superseded(48h);
             w.superseded(48h, "web", '1');
         },
         "retire web 1, retire web 0"},
        {"nothing is cleared for a user that is not in the file",
         [](policy_world& w) {
             w.superseded(48h);
             w.have().unwanted_since = w.now;
             w.drop("web");
         },
         ""},
    });
}

BOOST_AUTO_TEST_CASE(what_is_not_ours_is_never_deleted)
{
    check({
        {"another owner's mark",
         [](policy_world& w) {
             w.superseded(48h);
             w.remote("u-0").mark->owner = "web-02";
         },
         ""},
        {"somebody took the mark off",
         [](policy_world& w) {
             w.superseded(48h);
             w.remote("u-0").mark.reset();
             w.remote("u-0").description = "ours no more";
         },
         ""},
        {"the platform cut it off",
         [](policy_world& w) {
             auto& g = w.superseded(48h);
             auto& there = w.remote("u-0");
             there.mark.reset();
             there.description = g.sent.description.substr(0, g.sent.description.size() - 10);
         },
         "retire web 0"},
        {"another user's mark with our owner, unknown key",
         [](policy_world& w) { w.second("web", 'a', "u-x").mark->key = std::string(16, 'e'); }, ""},
        {"no mark at all", [](policy_world& w) { w.second("web", 'a', "u-x").mark.reset(); }, ""},
    });
}

BOOST_AUTO_TEST_CASE(what_was_never_in_use_goes_at_once)
{
    check({
        {"abandoned", [](policy_world& w) { w.on_its_way(stage::ready).abandoned = true; }, "retire web b"},
        {"abandoned, accepted a moment ago: a second answer may still turn up",
         [](policy_world& w) {
             auto& g = w.on_its_way(stage::ready);
             g.abandoned = true;
             g.submitted_at = w.now - 1s;
         },
         ""},
        {"abandoned, unknown to the platform",
         [](policy_world& w) { w.on_its_way(stage::sent).abandoned = true; }, "retire web b"},
        {"abandoned, sent a moment ago",
         [](policy_world& w) {
             auto& g = w.on_its_way(stage::sent);
             g.abandoned = true;
             g.submitted_at = w.now - 14s;
         },
         ""},
        {"abandoned, found by its mark: the user first, then the key",
         [](policy_world& w) {
             w.on_its_way(stage::sent).abandoned = true;
             w.second("web", 'b', "u-x");
         },
         "retire_surplus web b u-x, retire web b"},
        {"abandoned, while its successor is on its way",
         [](policy_world& w) {
             w.on_its_way(stage::ready).abandoned = true;
             w.on_its_way(stage::accepted, "web", 'c');
         },
         "retire web b"},
        {"a certificate that does not fit is kept for a person to look at",
         [](policy_world& w) {
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
         },
         ""},
        {"... until there is a newer one",
         [](policy_world& w) {
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
             w.on_its_way(stage::accepted, "web", 'c');
         },
         "retire web b"},
    });
}

BOOST_AUTO_TEST_CASE(second_users_of_one_key)
{
    check({
        {"of the one in use", [](policy_world& w) { w.second("web", 'a', "u-x"); },
         "retire_surplus web a u-x"},
        {"of the one in use, before its hooks have passed",
         [](policy_world& w) {
             w.second("web", 'a', "u-x");
             w.at("web", 'a').deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
         },
         ""},
        {"of one on its way",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             w.second("web", 'b', "u-x");
         },
         ""},
        {"of one that was replaced a moment ago",
         [](policy_world& w) {
             w.superseded(1s);
             w.second("web", '0', "u-x");
         },
         "retire_surplus web 0 u-x"},
        {"with another owner's mark",
         [](policy_world& w) { w.second("web", 'a', "u-x").mark->owner = "web-02"; }, ""},
    });
}

BOOST_AUTO_TEST_CASE(nothing_is_cleared_before_the_first_certificate_is_in_use)
{
    policy_world w;
    w.want();
    w.on_its_way(stage::ready).abandoned = true;
    w.on_its_way(stage::accepted, "web", 'c');
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(it_wakes_when_a_retirement_is_due)
{
    policy_world w;
    w.in_use();
    w.superseded(24h - 5min);
    BOOST_TEST((w.plan().wake_at == w.now + 5min));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
