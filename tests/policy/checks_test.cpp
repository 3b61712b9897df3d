#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>

// At least one row per rule: a world and the step that plan derives from it.

namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::output_condition;
using policy::retry;
using support::policy_world;
using support::stage;

struct row {
    const char* what;
    std::function<void(policy_world&)> given;
    const char* steps;
    const char* finding;
};

void check(const std::vector<row>& rows)
{
    for (const auto& r : rows) {
        BOOST_TEST_CONTEXT(r.what)
        {
            policy_world w;
            w.want();
            r.given(w);
            BOOST_TEST(w.steps() == r.steps);
            BOOST_TEST(w.finding() == r.finding);
        }
    }
}

// Changes every setting of a user that goes into its certificate.
void want_otherwise(policy_world& w)
{
    w.want().contact = "other@example.com";
}

BOOST_AUTO_TEST_SUITE(checks)

BOOST_AUTO_TEST_CASE(a_user_in_order_is_left_alone)
{
    policy_world w;
    w.in_use();
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(w.finding() == "healthy");
    const auto view = w.view();
    BOOST_TEST(view.next == "rotate");
    BOOST_TEST((view.next_at > w.now + 40 * 24h));
    BOOST_TEST((view.next_at < w.now + 81 * 24h));
}

BOOST_AUTO_TEST_CASE(who_is_wanted)
{
    check({
        {"nothing yet", [](policy_world&) {}, "issue web", "absent"},
        {"its record cannot be read",
         [](policy_world& w) {
             w.in_use();
             w.superseded(48h);
             w.have().unreadable = "state.json is damaged: restore it";
         },
         "", "record_unreadable"},
        {"not in the file",
         [](policy_world& w) {
             w.in_use();
             w.drop("web");
         },
         "mark_unwanted web", "not_in_file"},
        {"not in the file, and damaged",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::damaged;
             w.drop("web");
         },
         "mark_unwanted web", "not_in_file"},
        {"not in the file, prune is off",
         [](policy_world& w) {
             w.in_use();
             w.drop("web");
             w.desired.reconcile.prune = false;
         },
         "", "not_in_file"},
        {"not in the file for less than retire_after",
         [](policy_world& w) {
             w.in_use();
             w.have().unwanted_since = w.now - 24h + 1s;
             w.drop("web");
         },
         "", "not_in_file"},
        {"not in the file for retire_after",
         [](policy_world& w) {
             w.in_use();
             w.have().unwanted_since = w.now - 24h;
             w.drop("web");
         },
         "remove web", "not_in_file"},
        {"not in the file, its removal failed just now",
         [](policy_world& w) {
             w.in_use();
             w.have().unwanted_since = w.now - 24h;
             w.drop("web");
             w.have().failure = w.fails("web");
         },
         "", "backing_off"},
        {"not in the file, sent a moment ago without an answer",
         [](policy_world& w) {
             w.on_its_way(stage::sent).submitted_at = w.now - 1s;
             w.have().entry.retire_after = 0s;
             w.have().unwanted_since = w.now;
             w.drop("web");
         },
         "", "waiting_settle"},
        {"not in the file, nothing of it on the platform",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.vanish("u-a");
             w.have().unwanted_since = w.now - 24h;
             w.drop("web");
         },
         "forget web", "not_in_file"},
        {"not in the file, taken for gone once and there again",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.have().unwanted_since = w.now - 24h;
             w.drop("web");
         },
         "remove web", "not_in_file"},
        {"not in the file, never sent as far as the record knows: a backup may know less than the platform",
         [](policy_world& w) {
             w.on_its_way(stage::kept);
             w.have().entry.retire_after = 0s;
             w.have().unwanted_since = w.now;
             w.drop("web");
         },
         "remove web", "not_in_file"},
        {"not in the file, answered a moment ago and perhaps not shown yet",
         [](policy_world& w) {
             auto& g = w.on_its_way(stage::accepted);
             g.submitted_at = w.now - 1s;
             g.answered = true;
             w.have().entry.retire_after = 0s;
             w.have().unwanted_since = w.now;
             w.drop("web");
         },
         "", "waiting_settle"},
        {"not in the file since a time that has not come: the clock was set back",
         [](policy_world& w) {
             w.in_use();
             w.have().unwanted_since = w.now + 1h;
             w.drop("web");
         },
         "mark_unwanted web", "not_in_file"},
        {"named again",
         [](policy_world& w) {
             w.in_use();
             w.have().unwanted_since = w.now - 48h;
         },
         "mark_wanted web", "named_again"},
    });
}

BOOST_AUTO_TEST_CASE(what_is_in_use_is_kept_in_order)
{
    check({
        {"hooks have not passed", [](policy_world& w) { w.in_use().deployed_at.reset(); }, "deploy web a",
         "hooks_pending"},
        {"hooks failed just now",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
         },
         "", "healthy"},
        {"hooks failed before the entry changed",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
             w.want().rotation.retire_after = 1h;
         },
         "deploy web a", "hooks_pending"},
        {"failing hooks do not stop a repair",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().deploy_failure = w.fails("web");
             w.have().output = output_condition::damaged;
         },
         "publish web a", "output_damaged"},
        {"output wanted otherwise",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::changed;
         },
         "publish web a", "output_changed"},
        {"output missing",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::missing;
         },
         "publish web a", "output_missing"},
        {"output foreign",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::foreign;
         },
         "publish web a", "output_damaged"},
        {"a failing platform does not stop a repair",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::missing;
             w.have().failure = w.fails("web", retry::never, 1h);
         },
         "publish web a", "output_missing"},
        {"a failing disk does",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::missing;
             w.have().failure = w.fails("web");
             w.have().failure->code = errc::disk_full;
         },
         "", "backing_off"},
        {"no key to repair from",
         [](policy_world& w) {
             w.in_use().key_on_disk = false;
             w.have().output = output_condition::missing;
         },
         "issue web", "key_lost"},
    });
}

BOOST_AUTO_TEST_CASE(a_failure_is_not_repeated_before_its_time)
{
    check({
        {"failed just now", [](policy_world& w) { w.have().failure = w.fails("web"); }, "", "backing_off"},
        {"its time has come", [](policy_world& w) { w.have().failure = w.fails("web", retry::later, 0s); },
         "issue web", "absent"},
        {"the entry changed",
         [](policy_world& w) {
             w.have().failure = w.fails("web");
             want_otherwise(w);
         },
         "issue web", "absent"},
        {"a person asked",
         [](policy_world& w) {
             w.have().failure = w.fails("web");
             w.options.ignore_backoff = true;
         },
         "issue web", "absent"},
    });
    policy_world w;
    w.want();
    w.have().failure = w.fails("web", retry::later, 7s);
    BOOST_TEST(!w.view().blocked);
    BOOST_TEST((w.plan().wake_at == w.now + 7s));
    w.have().failure = w.fails("web", retry::after_change, 1h);
    BOOST_TEST(w.view().blocked);
    BOOST_TEST(w.view().sentence == "it failed");
}

BOOST_AUTO_TEST_CASE(a_generation_on_its_way)
{
    check({
        {"kept, not sent", [](policy_world& w) { w.on_its_way(stage::kept); }, "submit web b",
         "not_submitted"},
        {"kept, key gone", [](policy_world& w) { w.on_its_way(stage::kept).key_on_disk = false; },
         "abandon web b", "key_lost"},
        {"collected, key gone", [](policy_world& w) { w.on_its_way(stage::collected).key_on_disk = false; },
         "abandon web b", "key_lost"},
        {"kept, the file changed",
         [](policy_world& w) {
             w.on_its_way(stage::kept);
             want_otherwise(w);
         },
         "discard web b", "outdated"},
        {"kept, the file changed, and nobody asked the platform whether it knows it",
         [](policy_world& w) {
             w.on_its_way(stage::kept);
             w.observed.exposures.clear();
             want_otherwise(w);
         },
         "abandon web b", "outdated"},
        {"kept, the file changed, two instances: their users were not listed",
         [](policy_world& w) {
             w.on_its_way(stage::kept);
             w.seen().instances.push_back({.id = "i-2"});
             want_otherwise(w);
         },
         "abandon web b", "outdated"},
        {"sent, the list is silent after the settle time", [](policy_world& w) { w.on_its_way(stage::sent); },
         "submit web b", "unanswered"},
        {"sent, within the settle time",
         [](policy_world& w) { w.on_its_way(stage::sent).submitted_at = w.now - 14s; }, "", "waiting_settle"},
        {"sent, not looked since the settle time",
         [](policy_world& w) {
             w.on_its_way(stage::sent).submitted_at = w.now - 1h;
             w.seen().observed_at = w.now - 1h + 14s;
         },
         "", "waiting_settle"},
        {"sent, the list may be cut off",
         [](policy_world& w) {
             w.on_its_way(stage::sent);
             w.seen().cut_off = true;
         },
         "", "waiting_settle"},
        {"sent and refused: nothing to wait for",
         [](policy_world& w) {
             auto& g = w.on_its_way(stage::sent);
             g.submitted_at = w.now - 1s;
             g.answered = true;
         },
         "submit web b", "not_submitted"},
        {"sent, the file changed: the answer first",
         [](policy_world& w) {
             w.on_its_way(stage::sent).submitted_at = w.now - 1s;
             want_otherwise(w);
         },
         "", "waiting_settle"},
        {"sent, the file changed, the list silent",
         [](policy_world& w) {
             w.on_its_way(stage::sent);
             want_otherwise(w);
         },
         "abandon web b", "outdated"},
        {"sent, found by its marker",
         [](policy_world& w) {
             w.on_its_way(stage::sent);
             w.second("web", 'b', "u-x");
         },
         "adopt web b u-x", "found_by_marker"},
        {"accepted, IN PROGRESS", [](policy_world& w) { w.on_its_way(stage::accepted); }, "",
         "waiting_ready"},
        {"accepted, the file changed",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             want_otherwise(w);
         },
         "abandon web b", "outdated"},
        {"accepted, deleted by somebody",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             w.vanish("u-b");
         },
         "mark_missing web b", "lost_remote"},
        {"accepted a moment ago, not shown yet",
         [](policy_world& w) {
             w.on_its_way(stage::accepted).submitted_at = w.now - 1s;
             w.vanish("u-b");
         },
         "", "waiting_settle"},
        {"answered a moment ago, not shown yet",
         [](policy_world& w) {
             auto& g = w.on_its_way(stage::accepted);
             g.submitted_at = w.now - 1s;
             g.answered = true;
             w.vanish("u-b");
         },
         "", "waiting_settle"},
        {"accepted, deleted by somebody, its double is there",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             w.vanish("u-b");
             w.second("web", 'b', "u-x");
         },
         "adopt web b u-x", "found_by_marker"},
        {"IN PROGRESS for a day",
         [](policy_world& w) { w.on_its_way(stage::accepted).accepted_at = w.now - 24h; }, "abandon web b",
         "never_ready"},
        {"READY after a day", [](policy_world& w) { w.on_its_way(stage::ready).accepted_at = w.now - 24h; },
         "collect web b", "ready"},
        {"READY for a day, but without a certificate",
         [](policy_world& w) {
             w.on_its_way(stage::ready).accepted_at = w.now - 24h;
             w.have().failure = w.fails("web", retry::later, 0s);
             w.have().failure->code = errc::bad_answer;
         },
         "abandon web b", "never_ready"},
        {"READY", [](policy_world& w) { w.on_its_way(stage::ready); }, "collect web b", "ready"},
        {"collected, not valid yet",
         [](policy_world& w) { w.on_its_way(stage::collected).certificate->not_before = w.now + 1h; }, "",
         "waiting_ready"},
        {"collected", [](policy_world& w) { w.on_its_way(stage::collected); }, "publish web b",
         "not_published"},
        {"collected, to be verified",
         [](policy_world& w) {
             w.on_its_way(stage::collected);
             w.want().verify = true;
         },
         "verify web b", "not_verified"},
        {"verified",
         [](policy_world& w) {
             w.on_its_way(stage::verified);
             w.want().verify = true;
         },
         "publish web b", "not_published"},
        {"the broker is down and the one in use has expired: verified enough",
         [](policy_world& w) {
             w.want().verify = true;
             auto& g = w.on_its_way(stage::collected);
             g.verified = policy::verification::local;
             g.verified_at = w.now;
         },
         "publish web b", "not_published"},
        {"an abandoned one is nobody's step",
         [](policy_world& w) { w.on_its_way(stage::ready).abandoned = true; }, "issue web", "absent"},
        {"the newest counts",
         [](policy_world& w) {
             w.on_its_way(stage::ready).abandoned = true;
             w.on_its_way(stage::accepted, "web", 'c');
         },
         "", "waiting_ready"},
    });
}

BOOST_AUTO_TEST_CASE(the_winner_of_several_is_ready_then_older_then_smaller)
{
    using policy::remote_status;
    struct user {
        const char* id;
        remote_status status;
        policy::duration age;
    };
    const auto ready = remote_status::ready, making = remote_status::in_progress;
    struct race {
        user one, other;
        const char* winner;
    };
    for (const auto& r : {race{{"u-1", making, 9s}, {"u-2", ready, 1s}, "u-2"},
                          race{{"u-1", ready, 1s}, {"u-2", ready, 9s}, "u-2"},
                          race{{"u-2", ready, 5s}, {"u-1", ready, 5s}, "u-1"},
                          race{{"u-1", making, 1s}, {"u-2", making, 2s}, "u-2"}}) {
        policy_world w;
        w.want();
        w.on_its_way(stage::sent);
        for (const auto& u : {r.one, r.other}) {
            auto& there = w.second("web", 'b', u.id);
            there.status = u.status;
            there.creation_date = w.now - u.age;
        }
        BOOST_TEST(w.steps() == std::string("adopt web b ") + r.winner);
    }
}

BOOST_AUTO_TEST_CASE(only_our_mark_with_this_key_is_adopted)
{
    for (const auto& change : std::vector<std::function<void(policy::remote_user&)>>{
             [](auto& u) { u.mark->owner = "web-02"; }, [](auto& u) { u.mark->name.user = "other"; },
             [](auto& u) { u.mark->name.exposure = "health"; },
             [](auto& u) { u.mark->key = std::string(16, 'c'); }, [](auto& u) { u.mark.reset(); }}) {
        policy_world w;
        w.want();
        w.on_its_way(stage::sent);
        change(w.second("web", 'b', "u-x"));
        BOOST_TEST(w.steps() == "submit web b");
    }
}

BOOST_AUTO_TEST_CASE(a_new_certificate)
{
    check({
        {"another key type",
         [](policy_world& w) {
             w.in_use();
             w.want().key = policy::key_type::ed25519;
         },
         "issue web", "key_type_changed"},
        {"another group",
         [](policy_world& w) {
             w.in_use();
             w.want().consumer_group = "other";
         },
         "issue web", "group_changed"},
        {"another contact",
         [](policy_world& w) {
             w.in_use();
             want_otherwise(w);
         },
         "issue web", "contact_changed"},
        {"another description",
         [](policy_world& w) {
             w.in_use();
             w.want().description = "other";
         },
         "issue web", "description_changed"},
        {"another address",
         [](policy_world& w) {
             w.in_use();
             w.exposure().base_url = w.known().where.base_url = "https://other.example.com";
         },
         "issue web", "name_changed"},
        {"another tenant",
         [](policy_world& w) {
             w.in_use();
             w.exposure().tenant = w.known().where.tenant = "vega";
         },
         "issue web", "name_changed"},
        {"what needs no new certificate",
         [](policy_world& w) {
             w.in_use();
             w.want().rotation.retire_after = 1h;
             w.want().hooks.push_back({.argv = {"a"}});
             w.want().output.formats.insert(policy::file_format::bundle);
             w.exposure().broker = "broker.example.com:9093";
             w.exposure().encoding = policy::csr_encoding::der;
         },
         "", "healthy"},
        {"due",
         [](policy_world& w) {
             w.in_use();
             w.now += 65 * 24h;
         },
         "issue web", "rotation_due"},
        {"expired",
         [](policy_world& w) {
             w.in_use();
             w.now += 80 * 24h;
         },
         "issue web", "expired"},
        {"expired by the platform's word",
         [](policy_world& w) { w.in_use().certificate->expiration_date = w.now; }, "issue web", "expired"},
        {"asked for",
         [](policy_world& w) {
             w.in_use();
             w.have().rotate_asked_at = w.now;
         },
         "issue web", "rotation_asked"},
        {"deleted by somebody",
         [](policy_world& w) {
             w.in_use();
             w.vanish("u-a");
         },
         "mark_missing web a", "lost_remote"},
        {"deleted by somebody, and noted", [](policy_world& w) { w.in_use().missing_since = w.now; },
         "issue web", "lost_remote"},
        {"key gone", [](policy_world& w) { w.in_use().key_on_disk = false; }, "issue web", "key_lost"},
        {"a certificate that does not fit: a person looks first",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
         },
         "", "quarantined"},
        {"... and said rotate",
         [](policy_world& w) {
             w.in_use();
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
             w.have().rotate_asked_at = w.now;
         },
         "issue web", "rotation_asked"},
        {"... or the one in use nears its end",
         [](policy_world& w) {
             w.in_use();
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
             w.now += 72 * 24h;
         },
         "issue web", "rotation_due"},
    });
}

BOOST_AUTO_TEST_CASE(what_holds_a_new_certificate_back)
{
    check({
        {"paused",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.want().rotation.paused = true;
         },
         "", "paused"},
        {"paused, but asked for",
         [](policy_world& w) {
             w.in_use();
             w.want().rotation.paused = true;
             w.have().rotate_asked_at = w.now;
         },
         "issue web", "rotation_asked"},
        {"paused, but the first", [](policy_world& w) { w.want().rotation.paused = true; }, "issue web",
         "absent"},
        {"paused, nothing due",
         [](policy_world& w) {
             w.in_use();
             w.want().rotation.paused = true;
         },
         "", "healthy"},
        {"paused does not stop what is on its way",
         [](policy_world& w) {
             w.in_use();
             w.on_its_way(stage::ready);
             w.want().rotation.paused = true;
         },
         "collect web b", "ready"},
        {"the budget is spent",
         [](policy_world& w) {
             w.have().creations = {w.now - 23h, w.now - 2h, w.now};
         },
         "", "budget_spent"},
        {"the budget is spent, nothing is needed",
         [](policy_world& w) {
             w.in_use();
             w.have().creations = {w.now, w.now, w.now};
         },
         "", "healthy"},
        {"a part of it was spent a day ago",
         [](policy_world& w) {
             w.have().creations = {w.now - 24h, w.now - 2h, w.now};
         },
         "issue web", "absent"},
        {"spent once, a person has to look even when the day is over",
         [](policy_world& w) {
             w.have().blocked = {.reason = "budget_spent", .sentence = "see why", .since = w.now - 48h};
         },
         "", "budget_spent"},
        {"spent, but asked for",
         [](policy_world& w) {
             w.in_use();
             w.have().creations = {w.now, w.now, w.now};
             w.have().rotate_asked_at = w.now;
         },
         "issue web", "rotation_asked"},
        {"spent: the same request may still be sent again",
         [](policy_world& w) {
             w.on_its_way(stage::sent);
             w.have().creations = {w.now, w.now, w.now};
         },
         "submit web b", "unanswered"},
    });
}

BOOST_AUTO_TEST_CASE(replace_makes_room_first)
{
    const auto replaced = [](policy_world& w) {
        w.in_use();
        w.want().rotation.strategy = policy::strategy::replace;
        want_otherwise(w);
    };
    check({
        {"the old user goes first", replaced, "delete_before_replace web a", "strategy_replace"},
        {"then the new one comes",
         [&](policy_world& w) {
             replaced(w);
             w.at("web", 'a').missing_since = w.now;
             w.vanish("u-a");
         },
         "issue web", "lost_remote"},
        {"paused keeps the old one",
         [&](policy_world& w) {
             replaced(w);
             w.want().rotation.paused = true;
         },
         "", "paused"},
        {"a spent budget keeps the old one",
         [&](policy_world& w) {
             replaced(w);
             w.have().creations = {w.now, w.now, w.now};
         },
         "", "budget_spent"},
        {"a back-off keeps the old one",
         [&](policy_world& w) {
             replaced(w);
             w.have().failure = w.fails("web");
         },
         "", "backing_off"},
        {"it carries another owner's mark now",
         [&](policy_world& w) {
             replaced(w);
             w.remote("u-a").mark->owner = "web-02";
         },
         "", "strategy_replace"},
        {"nothing is released for nothing",
         [](policy_world& w) {
             w.in_use();
             w.want().rotation.strategy = policy::strategy::replace;
         },
         "", "healthy"},
    });
}

BOOST_AUTO_TEST_CASE(what_rollback_put_back_stays)
{
    const auto held = [](policy_world& w) {
        w.in_use();
        w.have().held = w.have().current;
    };
    check({
        {"the file wants it otherwise",
         [&](policy_world& w) {
             held(w);
             want_otherwise(w);
         },
         "", "healthy"},
        {"until it is due",
         [&](policy_world& w) {
             held(w);
             w.now += 65 * 24h;
         },
         "issue web", "rotation_due"},
        {"it was due already when it was put back",
         [&](policy_world& w) {
             held(w);
             w.now += 65 * 24h;
             w.at("web", 'a').published_at = w.now - 1h;
         },
         "", "healthy"},
        {"it was due already, and half of what was left has passed",
         [&](policy_world& w) {
             held(w);
             w.now += 65 * 24h;
             w.at("web", 'a').published_at = w.now - 15 * 24h;
         },
         "issue web", "rotation_due"},
        {"until somebody says rotate",
         [&](policy_world& w) {
             held(w);
             w.have().rotate_asked_at = w.now;
         },
         "issue web", "rotation_asked"},
        {"until it is deleted",
         [&](policy_world& w) {
             held(w);
             w.at("web", 'a').missing_since = w.now;
         },
         "issue web", "lost_remote"},
        {"what was on its way is not wanted any more",
         [&](policy_world& w) {
             held(w);
             w.on_its_way(stage::ready);
         },
         "abandon web b", "outdated"},
        {"what was not sent yet neither",
         [&](policy_world& w) {
             held(w);
             w.on_its_way(stage::kept);
         },
         "discard web b", "outdated"},
        {"another one is held",
         [&](policy_world& w) {
             w.in_use();
             w.have().held = "cccccccc";
             want_otherwise(w);
         },
         "issue web", "contact_changed"},
    });
}

// Each world breaks two rules: the first one in the chain decides.
BOOST_AUTO_TEST_CASE(the_order_of_the_rules)
{
    check({
        {"unreadable before not in the file",
         [](policy_world& w) {
             w.have().unreadable = "damaged";
             w.drop("web");
         },
         "", "record_unreadable"},
        {"named again before hooks",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().unwanted_since = w.now;
         },
         "mark_wanted web", "named_again"},
        {"hooks before repair",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().output = output_condition::damaged;
         },
         "deploy web a", "hooks_pending"},
        {"repair before what is on its way",
         [](policy_world& w) {
             w.in_use();
             w.on_its_way(stage::ready);
             w.have().output = output_condition::damaged;
         },
         "publish web a", "output_damaged"},
        {"hooks before back-off",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().failure = w.fails("web");
         },
         "deploy web a", "hooks_pending"},
        {"what is on its way before a new one",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.on_its_way(stage::collected);
         },
         "publish web b", "not_published"},
        {"deleted before outdated",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             w.vanish("u-b");
             want_otherwise(w);
         },
         "mark_missing web b", "lost_remote"},
        {"outdated before proof",
         [](policy_world& w) {
             w.on_its_way(stage::collected);
             w.want().verify = true;
             want_otherwise(w);
         },
         "abandon web b", "outdated"},
        {"quarantine before a spent budget",
         [](policy_world& w) {
             w.on_its_way(stage::ready).quarantine = "its public key does not match our private key";
             w.have().creations = {w.now, w.now, w.now};
         },
         "", "quarantined"},
        {"paused before a spent budget",
         [](policy_world& w) {
             w.in_use().missing_since = w.now;
             w.want().rotation.paused = true;
             w.have().creations = {w.now, w.now, w.now};
         },
         "", "paused"},
    });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
