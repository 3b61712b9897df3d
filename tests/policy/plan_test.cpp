#include "policy/plan.hpp"

#include "policy/status.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

// What blocks a whole exposure or host, and what a single pass may do at most.

namespace {

using namespace std::chrono_literals;
using policy::word_of;
using support::policy_world;
using support::stage;

// One user for each kind of step: not created yet, READY, damaged, hooks pending, retirement due, not in the
// file.
void busy(policy_world& w)
{
    w.want("absent");
    w.on_its_way(stage::ready, "ready", '1');
    w.in_use("damaged", '2');
    w.have("damaged").output = policy::output_condition::damaged;
    w.in_use("hooks", '3').deployed_at.reset();
    w.in_use("retiring", '5');
    w.superseded(48h, "retiring", '4');
    w.in_use("dropped", '6');
    w.drop("dropped");
}

std::string guard(const policy_world& w)
{
    const auto view = w.exposure_view();
    return std::string(word_of(view.why)) + (view.blocked ? ", blocked" : "");
}

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(an_open_guard_lets_everything_through)
{
    policy_world w;
    busy(w);
    BOOST_TEST(guard(w) == "healthy");
    BOOST_TEST(w.steps() ==
               "issue absent, collect ready 1, publish damaged 2, deploy hooks 3, retire retiring 4, "
               "mark_unwanted dropped");
}

BOOST_AUTO_TEST_CASE(a_cloned_state_directory_does_nothing_at_all)
{
    policy_world w;
    busy(w);
    w.stored.cloned = true;
    BOOST_TEST(guard(w) == "cloned, blocked");
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(w.finding("ready") == "cloned");
    BOOST_TEST(w.view("ready").blocked);
}

BOOST_AUTO_TEST_CASE(a_wrong_clock_does_nothing_at_all)
{
    for (const auto skew : {policy::duration(301s), policy::duration(-301s)}) {
        policy_world w;
        busy(w);
        w.clock_ahead() = skew;
        BOOST_TEST(guard(w) == "clock_wrong, blocked");
        BOOST_TEST(w.steps() == "");
    }
    policy_world w;
    w.want();
    for (const auto skew : {policy::duration(300s), policy::duration(-300s)}) {
        w.clock_ahead() = skew;
        BOOST_TEST(w.steps() == "issue web");
    }
    w.observed.clock_ahead.clear();
    BOOST_TEST(w.steps() == "issue web");
}

BOOST_AUTO_TEST_CASE(a_wrong_clock_of_one_platform_stops_its_own_exposures_alone)
{
    policy_world w;
    w.want();
    auto other = w.exposure();
    other.name = "more";
    other.base_url = "https://more.example.com";
    w.desired.exposures.push_back(other);
    w.stored.exposures["more"] = w.known();
    w.stored.exposures["more"].where.base_url = other.base_url;
    w.observed.exposures["more"] = w.seen();
    w.observed.clock_ahead[other.base_url] = 1h;
    BOOST_TEST(guard(w) == "healthy");
    BOOST_TEST(w.steps() == "issue web");
    BOOST_TEST(std::string(policy::word_of(w.plan().exposures.at(1).why)) == "clock_wrong");
    std::swap(w.clock_ahead(), w.observed.clock_ahead[other.base_url]);
    BOOST_TEST(guard(w) == "clock_wrong, blocked");
    BOOST_TEST(w.steps() == "issue web");  // of the other exposure
}

// The user's own platform counts, not the file; while it has not answered, the clocks of all platforms count.
BOOST_AUTO_TEST_CASE(a_user_of_a_removed_exposure_goes_by_the_clock_of_its_own_platform)
{
    policy_world w;
    w.in_use();
    w.have().unwanted_since = w.now - 24h;
    w.desired.exposures.clear();
    auto& other = w.observed.clock_ahead["https://more.example.com"];
    other = 1h;
    BOOST_TEST(w.steps() == "remove web");
    w.clock_ahead() = 1h;
    BOOST_TEST(w.steps() == "");
    w.observed.clock_ahead.erase("https://les.example.com");
    BOOST_TEST(w.steps() == "");
    other = 0s;
    BOOST_TEST(w.steps() == "remove web");
}

BOOST_AUTO_TEST_CASE(an_exposure_that_cannot_be_looked_at_gets_what_the_disk_alone_decides)
{
    const auto local = "publish damaged 2, deploy hooks 3, mark_unwanted dropped";
    policy_world w;
    busy(w);
    w.seen() = {.observed_at = w.now, .error = policy::failure{.context = "no answer"}};
    BOOST_TEST(guard(w) == "unreachable");
    BOOST_TEST(w.exposure_view().sentence == "no answer");
    BOOST_TEST(w.steps() == local);
    BOOST_TEST(w.finding("absent") == "unreachable");
    BOOST_TEST(!w.view("absent").blocked);

    w.observed.exposures.clear();
    BOOST_TEST(guard(w) == "unreachable");
    BOOST_TEST(w.steps() == local);
}

std::string later(const policy_world& w)
{
    std::string text;
    for (const auto& step : w.plan().later)
        text += step.name.user + " " + step.next + " " + word_of(step.why) + " in " +
                std::to_string((*step.next_at - w.now) / 1h) + " h; ";
    return text;
}

BOOST_AUTO_TEST_CASE(what_is_decided_for_later)
{
    policy_world w;
    w.in_use("web", 'a');
    w.superseded(1h, "web", '0');
    w.in_use("dropped", 'b');
    w.drop("dropped");
    w.have("dropped").unwanted_since = w.now - 4h;
    w.in_use("paused", 'c');
    w.want("paused").rotation.paused = true;
    w.want("new");
    const auto text = later(w);
    BOOST_TEST(text.find("web rotate rotation_due in ") == 0u, text);
    BOOST_TEST(text.find("web retire superseded in 23 h; ") != std::string::npos, text);
    BOOST_TEST(text.find("dropped remove not_in_file in 20 h; ") != std::string::npos, text);
    BOOST_TEST(text.find("paused") == std::string::npos, text);
    BOOST_TEST(text.find("new") == std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_user_of_another_owner_is_promised_no_deletion)
{
    policy_world w;
    w.in_use("web", 'a');
    auto& old = w.superseded(1h, "web", '0');
    old.sent.description = policy::marker_text(
        {.owner = "web-00", .name = {"logs", "web"}, .key = policy::marker_key(old.fingerprint)});
    w.remote("u-0").mark->owner = "web-00";
    BOOST_TEST(later(w).find("retire") == std::string::npos);
    BOOST_TEST(policy::statuses(w.desired, w.stored, w.now).front().retiring.empty());
}

BOOST_AUTO_TEST_CASE(a_changed_owner_waits_for_a_person)
{
    policy_world w;
    w.in_use();
    w.stored.owner = "web-02";
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(w.finding() == "owner_changed");
    BOOST_TEST(w.view().blocked);
    const auto change = policy::changed_owner({.owner = "web-02"}, w.stored);
    BOOST_TEST_REQUIRE(change.has_value());
    BOOST_TEST(
        change->sentence() ==
        "owner changed: web-01 → web-02; this creates 1 user again and leaves the old one on the platform");
    BOOST_TEST(!policy::changed_owner({.owner = "web-01"}, w.stored));
    w.options.accept_loss = true;
    BOOST_TEST(w.steps() == "issue web");
}

BOOST_AUTO_TEST_CASE(the_instance)
{
    policy_world w;
    w.want();
    w.known().where.instance_id.clear();
    BOOST_TEST(w.steps() == "remember_instance i-1");

    w.seen().instances.clear();
    BOOST_TEST(w.steps() == "onboard");
    BOOST_TEST(w.finding() == "waiting_instance");

    w.exposure().create_instance = false;
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(guard(w) == "instance_missing, blocked");
    w.exposure().create_instance = true;

    w.known().onboarding_since = w.now - 14s;  // no response: look for the instance first
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(w.plan().waits_for_platform);
    w.known().onboarding_since = w.now - 15s;
    BOOST_TEST(w.steps() == "onboard");

    w.exposure().users.clear();
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(onboarding_that_failed_waits_its_time)
{
    policy_world w;
    w.want();
    w.known().where.instance_id.clear();
    w.seen().instances.clear();
    w.known().failure = policy::failure_memory{.kind = policy::retry::after_change,
                                               .sentence = "the tenant may not",
                                               .next_attempt = w.now + 10min,
                                               .wanted = w.exposure().base_url};
    BOOST_TEST(w.steps() == "");
    BOOST_TEST(guard(w) == "waiting_instance, blocked");
    BOOST_TEST(w.exposure_view().sentence == "the tenant may not");
    BOOST_TEST((w.plan().wake_at == w.now + 10min));
    w.options.ignore_backoff = true;
    BOOST_TEST(w.steps() == "onboard");
    w.options.ignore_backoff = false;
    w.now += 10min;
    BOOST_TEST(w.steps() == "onboard");
}

BOOST_AUTO_TEST_CASE(an_instance_in_the_making_is_waited_for)
{
    policy_world w;
    busy(w);
    w.seen().instances.front().status = policy::remote_status::in_progress;
    w.seen().instances.front().status_text = "IN PROGRESS";
    BOOST_TEST(guard(w) == "waiting_instance");
    BOOST_TEST(w.plan().waits_for_platform);
    BOOST_TEST(w.steps() == "publish damaged 2, deploy hooks 3, mark_unwanted dropped");
}

BOOST_AUTO_TEST_CASE(several_instances_are_an_incident)
{
    policy_world w;
    busy(w);
    w.seen().instances.push_back({.id = "i-2", .status = policy::remote_status::ready});
    BOOST_TEST(guard(w) == "instance_several, blocked");
    BOOST_TEST(w.steps() == "publish damaged 2, deploy hooks 3, mark_unwanted dropped");
    w.options.accept_loss = true;
    BOOST_TEST(guard(w) == "instance_several, blocked");
}

BOOST_AUTO_TEST_CASE(a_vanished_instance_is_an_incident)
{
    for (const bool another : {false, true}) {
        policy_world w;
        w.want();
        w.seen().instances.clear();
        if (another) w.seen().instances.push_back({.id = "i-2", .status = policy::remote_status::ready});
        BOOST_TEST(guard(w) == "instance_vanished, blocked");
        BOOST_TEST(w.steps() == "");
        BOOST_TEST(w.finding() == "instance_vanished");
        w.options.accept_loss = true;
        BOOST_TEST(w.steps() == "forget_instance i-1");
    }
}

// The file temporarily named another tenant, or the record was lost.
BOOST_AUTO_TEST_CASE(an_instance_that_only_its_users_remember_is_no_reason_for_another)
{
    policy_world w;
    w.in_use();
    w.stored.exposures.clear();
    w.seen().instances.clear();
    w.seen().users.clear();
    BOOST_TEST(guard(w) == "instance_vanished, blocked");
    BOOST_TEST(w.steps() == "");
    w.options.accept_loss = true;
    BOOST_TEST(w.steps() == "forget_instance i-1");
    w.options.accept_loss = false;
    w.seen().instances.push_back({.id = "i-1", .status = policy::remote_status::ready});
    BOOST_TEST(w.steps() == "remember_instance i-1");
    w.seen().instances.clear();
    w.at("web", 'a').missing_since = w.now;
    BOOST_TEST(w.steps() == "onboard");
}

// The current tenant's contents say nothing about a user in another tenant.
BOOST_AUTO_TEST_CASE(a_user_of_another_tenant_is_removed_whatever_todays_is_like)
{
    policy_world w;
    w.in_use();
    w.have().unwanted_since = w.now - 24h;
    w.drop("web");
    w.exposure().tenant = "vega";
    w.seen().instances.clear();
    w.seen().users.clear();
    BOOST_TEST(w.steps() == "remove web");
    w.clock_ahead() = 1h;
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(another_tenant_in_the_file_is_no_vanished_instance)
{
    for (const bool address : {false, true}) {
        policy_world w;
        w.in_use();
        (address ? w.exposure().base_url : w.exposure().tenant) = address ? "https://b.example.com" : "vega";
        w.seen().instances.front().id = "i-2";
        w.seen().users.clear();
        BOOST_TEST(w.steps() == "remember_instance i-2");
    }
}

BOOST_AUTO_TEST_CASE(an_unreadable_record_of_the_exposure_stops_it)
{
    policy_world w;
    w.want();
    w.known().name = "logs";
    w.known().unreadable = "logs.json is damaged: restore it";
    BOOST_TEST(guard(w) == "record_unreadable, blocked");
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(users_that_vanish_together_are_an_incident)
{
    struct row {
        std::size_t users, gone;
        bool incident;
    };
    for (const auto& r : {row{1, 1, false}, row{2, 1, false}, row{2, 2, true}, row{3, 2, true},
                          row{4, 2, false}, row{5, 3, true}}) {
        policy_world w;
        for (std::size_t i = 0; i < r.users; ++i) {
            const auto digit = static_cast<char>('1' + i);
            w.in_use(std::string("u") + digit, digit);
            if (i < r.gone) w.vanish(std::string("u-") + digit);
        }
        BOOST_TEST(guard(w) == (r.incident ? "users_vanished, blocked" : "healthy"));
        BOOST_TEST((w.steps() == "") == r.incident);
        w.options.accept_loss = true;
        BOOST_TEST(w.steps().starts_with("mark_missing u1 1"));
    }
}

BOOST_AUTO_TEST_CASE(nothing_is_retired_while_most_users_have_vanished)
{
    policy_world w;
    w.in_use("a", '1');
    w.in_use("b", '2');
    w.in_use("c", '3');
    w.superseded(48h, "c", '4');
    w.vanish("u-1");
    w.vanish("u-2");
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(users_of_an_exposure_that_left_the_file_are_removed)
{
    policy_world w;
    w.in_use();
    w.desired.exposures.clear();
    BOOST_TEST(w.steps() == "mark_unwanted web");
    w.have().unwanted_since = w.now - 24h;
    w.observed.exposures.clear();
    BOOST_TEST(w.steps() == "remove web");
    w.at("web", 'a').missing_since = w.now;
    BOOST_TEST(w.steps() == "forget web");
    w.stored.cloned = true;
    BOOST_TEST(w.steps() == "");
    w.stored.cloned = false;
    w.clock_ahead() = 1h;
    BOOST_TEST(w.steps() == "");
}

BOOST_AUTO_TEST_CASE(more_removals_than_allowed_are_none)
{
    policy_world w;
    w.desired.reconcile.max_deletes = 2;
    for (const char digit : {'1', '2', '3'}) {
        const auto name = std::string("u") + digit;
        w.in_use(name, digit);
        w.have(name).unwanted_since = w.now - 48h;
        w.drop(name);
    }
    w.in_use("late", '4');
    w.drop("late");
    BOOST_TEST(w.steps() == "mark_unwanted late");
    BOOST_TEST(w.finding("u1") == "deletes_exceeded");
    BOOST_TEST(w.view("u1").blocked);
    BOOST_TEST(w.finding("late") == "not_in_file");
    BOOST_TEST(!w.view("late").blocked);

    w.desired.reconcile.max_deletes = 3;
    BOOST_TEST(w.steps() == "mark_unwanted late, remove u1, remove u2, remove u3");
}

BOOST_AUTO_TEST_CASE(retirements_are_paced)
{
    policy_world w;
    w.desired.reconcile.max_deletes = 2;
    int i = 0;
    for (const char digit : {'1', '3', '5'}) {
        const auto name = "u" + std::to_string(++i);
        w.in_use(name, digit);
        w.superseded(48h, name, static_cast<char>(digit + 1));
    }
    BOOST_TEST(w.steps() == "retire u1 2, retire u2 4");

    w.in_use("gone", '7');
    w.have("gone").unwanted_since = w.now - 48h;
    w.drop("gone");
    BOOST_TEST(w.steps() == "retire u1 2, remove gone");
}

BOOST_AUTO_TEST_CASE(unmanaged_users)
{
    policy_world w;
    w.in_use();
    auto& keyless = w.second("web", 'a', "u-keyless");
    keyless.mark->key = std::string(16, 'e');
    w.second("web", 'a', "u-theirs").mark->owner = "web-02";
    w.second("web", 'a', "u-plain").mark.reset();
    w.second("web", 'a', "u-surplus");
    const auto found = w.plan().unmanaged;
    BOOST_REQUIRE(found.size() == 3u);
    BOOST_TEST((found[0] == policy::unmanaged_user{"logs", "u-keyless", found[0].name, "web-01", true}));
    BOOST_TEST((found[1] == policy::unmanaged_user{"logs", "u-theirs", found[1].name, "web-02", false}));
    BOOST_TEST((found[2] == policy::unmanaged_user{"logs", "u-plain", found[2].name, std::nullopt, false}));
    BOOST_TEST(w.steps() == "retire_surplus web a u-surplus");
}

BOOST_AUTO_TEST_CASE(a_blocked_user_says_why_and_stops_nobody)
{
    policy_world w;
    w.in_use("blocked", '1').missing_since = w.now;
    w.want("blocked").rotation.paused = true;
    w.want("web");
    BOOST_TEST(w.steps() == "issue web");
    BOOST_TEST(w.view("blocked").blocked);
    BOOST_TEST(w.view("blocked").sentence.find("rotation.paused") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(it_wakes_at_the_earliest_change)
{
    policy_world w;
    w.in_use();
    BOOST_TEST((w.plan().wake_at == w.now + 15min));
    w.desired.reconcile.interval = 365 * 24h;
    BOOST_TEST((w.plan().wake_at == w.view().next_at));
    w.have("web").failure = w.fails("web", policy::retry::later, 7s);
    BOOST_TEST((w.plan().wake_at == w.now + 7s));
}

BOOST_AUTO_TEST_CASE(an_exposure_sets_its_own_pace)
{
    policy_world w;
    w.in_use();
    auto other = w.exposure();
    other.name = "health";
    other.users = {w.want()};
    w.desired.exposures.push_back(other);
    auto& record = w.stored.exposures["health"] = w.known();
    record.where.instance_id.clear();
    record.onboarding_since = w.now - 1s;
    w.observed.exposures["health"] = {.observed_at = w.now};
    w.stored.users[{"health", "web"}] = {.name = {"health", "web"},
                                         .failure = w.fails("web", policy::retry::later, 7s)};
    BOOST_TEST(w.plan().waits_for_platform);
    BOOST_TEST((w.plan().wake_at == w.now + 7s));
    w.options.pace_of = "logs";
    BOOST_TEST(!w.plan().waits_for_platform);
    BOOST_TEST((w.plan().wake_at == w.now + 15min));
    w.options.pace_of = "health";
    BOOST_TEST(w.plan().waits_for_platform);
}

BOOST_AUTO_TEST_CASE(the_same_arguments_give_the_same_plan)
{
    policy_world w;
    busy(w);
    const auto once = w.plan();
    const auto twice = w.plan();
    BOOST_TEST((once.actions == twice.actions));
    BOOST_TEST((once.users == twice.users));
    BOOST_TEST((once.wake_at == twice.wake_at));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
