#include "policy/notify.hpp"
#include "policy/status.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

// How users come under management on a host and leave it: import and decommission.

namespace {

using namespace std::chrono_literals;
using support::policy_world;
using support::stage;

BOOST_AUTO_TEST_SUITE(handover)

// ---- import

// A user created by hand: no marker, and settings that differ from the file.
policy::generation& imported(policy_world& w, bool kept)
{
    auto& g = w.in_use();
    g.imported = true;
    g.kept = kept;
    g.sent.common_name = "hand-made";
    g.sent.description = "made by hand";
    g.sent.contact = "old@example.com";
    g.sent.consumer_group = "other";
    auto& user = w.remote(g.remote_id);
    user.mark.reset();
    user.description = g.sent.description;
    return g;
}

BOOST_AUTO_TEST_CASE(an_import_takes_the_place_of_what_is_on_its_way)
{
    policy_world w;
    w.on_its_way(stage::accepted, "web", 'b');
    auto made = w.at("web", 'b');
    made.id = std::string(8, 'c');
    made.imported = true;
    const auto user = policy::apply(w.have(), policy::event::imported{made}, w.now);
    BOOST_TEST(user.generations.size() == 2u);
    BOOST_TEST(user.generations.front().abandoned);
    BOOST_TEST(user.current.empty());
    BOOST_TEST(policy::find_pending(user)->id == made.id);
    const auto line = policy::describe(w.have(), policy::event::imported{made}, w.now);
    BOOST_TEST(line.value().event == "imported");
}

BOOST_AUTO_TEST_CASE(it_stays_as_it_is_until_it_is_due)
{
    for (const bool kept : {true, false}) {
        policy_world w;
        imported(w, kept);
        BOOST_TEST(w.steps() == "");
        BOOST_TEST(w.finding() == "healthy");
        BOOST_TEST(w.plan().unmanaged.empty());
        w.now += 70 * 24h;
        w.seen().observed_at = w.now;
        BOOST_TEST(w.steps() == "issue web");
    }
}

BOOST_AUTO_TEST_CASE(another_tenant_is_no_reason_to_wait)
{
    policy_world w;
    imported(w, true);
    w.exposure().tenant = "other";
    w.stored.exposures.clear();
    BOOST_TEST(w.finding() != "healthy");
}

BOOST_AUTO_TEST_CASE(only_with_retire_is_it_deleted_after_its_rotation)
{
    for (const bool kept : {true, false}) {
        policy_world w;
        imported(w, kept);
        auto& successor = w.in_use("web", 'b');
        successor.published_at = successor.deployed_at = w.now - 48h;
        BOOST_TEST(w.steps() == (kept ? "" : "retire web a"));
        const auto users = policy::statuses(w.desired, w.stored, w.now);
        BOOST_TEST(users.at(0).retiring.empty() == kept);
    }
}

BOOST_AUTO_TEST_CASE(a_marker_of_somebody_else_is_respected)
{
    policy_world w;
    auto& g = imported(w, false);
    w.remote(g.remote_id).mark = policy::marker{.owner = "web-02", .name = {"logs", "web"}, .key = "0"};
    auto& successor = w.in_use("web", 'b');
    successor.published_at = successor.deployed_at = w.now - 48h;
    BOOST_TEST(w.steps() == "");
}

// ---- decommission

policy_world leaving(bool at_once)
{
    policy_world w;
    for (const char digit : {'1', '2', '3'})
        w.in_use(std::string("web-") + digit, digit);
    w.desired.reconcile.prune = false;
    w.desired.reconcile.max_deletes = 1;
    w.stored.leaving = policy::decommission{.since = w.now, .at_once = at_once};
    return w;
}

BOOST_AUTO_TEST_CASE(every_user_goes_whatever_the_file_says)
{
    auto w = leaving(false);
    w.want("new");
    BOOST_TEST(w.steps() == "mark_unwanted web-1, mark_unwanted web-2, mark_unwanted web-3");
    for (auto& [name, user] : w.stored.users)
        user.unwanted_since = w.now;
    BOOST_TEST(w.steps() == "");
    w.now += 24h;
    w.seen().observed_at = w.now;
    BOOST_TEST(w.steps() == "remove web-1, remove web-2, remove web-3");
}

BOOST_AUTO_TEST_CASE(at_once_needs_no_retire_after)
{
    auto w = leaving(true);
    for (auto& [name, user] : w.stored.users)
        user.unwanted_since = w.now;
    BOOST_TEST(w.steps() == "remove web-1, remove web-2, remove web-3");
}

BOOST_AUTO_TEST_CASE(nothing_is_created_or_rotated)
{
    policy_world w;
    w.want("new");
    w.in_use("due", '1');
    w.on_its_way(stage::ready, "coming", '2');
    w.seen().instances.clear();
    w.known().where.instance_id.clear();
    w.stored.leaving = policy::decommission{.since = w.now};
    w.now += 70 * 24h;
    for (const auto& a : w.plan().actions)
        BOOST_TEST((a.kind == policy::action_kind::mark_unwanted));
}

BOOST_AUTO_TEST_CASE(undone_before_the_end_nothing_was_lost)
{
    auto w = leaving(false);
    for (auto& [name, user] : w.stored.users)
        user.unwanted_since = w.now;
    w.stored.leaving.reset();
    BOOST_TEST(w.steps() == "mark_wanted web-1, mark_wanted web-2, mark_wanted web-3");
}

BOOST_AUTO_TEST_CASE(it_is_done_when_no_record_is_left)
{
    auto w = leaving(true);
    BOOST_TEST(!policy::is_decommissioned(w.stored));
    for (const auto& s : policy::statuses(w.desired, w.stored, w.now))
        BOOST_TEST((s.state == policy::user_state::removing));
    w.stored.users.clear();
    BOOST_TEST(policy::is_decommissioned(w.stored));
    BOOST_TEST(policy::statuses(w.desired, w.stored, w.now).empty());
    const policy::notify_facts facts{
        .desired = w.desired, .stored = w.stored, .login = {.required = true}, .diagnostics = {}};
    BOOST_TEST(policy::notifications(facts, {}, w.now).due.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
