#include "policy/status.hpp"

#include "policy/facts.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>

// What `status` prints, from the disk alone.

namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::output_condition;
using policy::retry;
using support::policy_world;
using support::stage;

policy::user_status stand(const policy_world& w)
{
    return policy::statuses(w.desired, w.stored, w.now).at(0);
}

struct row {
    const char* what;
    std::function<void(policy_world&)> given;
    const char* state;
    const char* reason;
    bool attention;
};

policy::failure_memory because(const policy_world& w, errc code, retry kind = retry::later)
{
    auto memory = w.fails("web", kind);
    memory.code = code;
    return memory;
}

BOOST_AUTO_TEST_SUITE(status)

BOOST_AUTO_TEST_CASE(from_the_most_to_the_least_pressing)
{
    const std::vector<row> rows = {
        {"nothing yet", [](policy_world&) {}, "absent", "absent", true},
        {"in order", [](policy_world& w) { w.in_use(); }, "valid", "healthy", false},
        {"on its way", [](policy_world& w) { w.on_its_way(stage::accepted); }, "issuing", "waiting_ready",
         false},
        {"due",
         [](policy_world& w) {
             w.in_use();
             w.now += 70 * 24h;
         },
         "due", "rotation_due", false},
        {"expired",
         [](policy_world& w) {
             w.in_use();
             w.now += 80 * 24h;
         },
         "expired", "expired", true},
        {"expired while a new one is on its way",
         [](policy_world& w) {
             w.in_use();
             w.on_its_way(stage::accepted);
             w.now += 80 * 24h;
         },
         "expired", "expired", true},
        {"failing",
         [](policy_world& w) {
             w.in_use();
             w.have().failure = because(w, errc::unavailable);
         },
         "failing", "unavailable", true},
        {"hooks failing",
         [](policy_world& w) {
             w.in_use().deployed_at.reset();
             w.have().deploy_failure = because(w, errc::hook_failed);
         },
         "failing", "hook_failed", true},
        {"a failure that waits for a person",
         [](policy_world& w) { w.have().failure = because(w, errc::refused, retry::after_change); },
         "blocked", "refused", true},
        {"blocked",
         [](policy_world& w) {
             w.in_use();
             w.have().blocked = {.reason = "budget_spent", .sentence = "see why", .since = w.now};
         },
         "blocked", "budget_spent", true},
        {"paused needs nobody's attention",
         [](policy_world& w) {
             w.in_use();
             w.have().blocked = {.reason = "paused", .sentence = "it is paused", .since = w.now};
         },
         "blocked", "paused", false},
        {"the exposure is blocked, nothing in use",
         [](policy_world& w) {
             w.known().blocked = {.reason = "instance_vanished", .sentence = "gone", .since = w.now};
         },
         "blocked", "instance_vanished", true},
        {"the exposure is blocked, but the certificate works",
         [](policy_world& w) {
             w.in_use();
             w.known().blocked = {.reason = "instance_vanished", .sentence = "gone", .since = w.now};
         },
         "valid", "healthy", false},
        {"unreachable, nothing in use",
         [](policy_world& w) { w.known().failure = because(w, errc::not_connected); }, "absent",
         "unreachable", true},
        {"unreachable, on its way",
         [](policy_world& w) {
             w.on_its_way(stage::accepted);
             w.known().failure = because(w, errc::not_connected);
         },
         "failing", "unreachable", true},
        {"unreachable, but the certificate works",
         [](policy_world& w) {
             w.in_use();
             w.known().failure = because(w, errc::not_connected);
         },
         "valid", "healthy", false},
        {"unreachable, and due",
         [](policy_world& w) {
             w.in_use();
             w.known().failure = because(w, errc::not_connected);
             w.now += 70 * 24h;
         },
         "failing", "unreachable", true},
        {"damaged",
         [](policy_world& w) {
             w.in_use();
             w.have().output = output_condition::damaged;
             w.have().output_detail = "key.pem is missing";
         },
         "failing", "output_damaged", true},
        {"unreadable", [](policy_world& w) { w.have().unreadable = "state.json is damaged"; }, "blocked",
         "record_unreadable", true},
        {"not in the file",
         [](policy_world& w) {
             w.in_use();
             w.drop("web");
         },
         "removing", "not_in_file", false},
    };
    for (const auto& r : rows) {
        BOOST_TEST_CONTEXT(r.what)
        {
            policy_world w;
            w.want();
            r.given(w);
            const auto s = stand(w);
            BOOST_TEST(word_of(s.state) == r.state);
            BOOST_TEST(s.reason == r.reason);
            BOOST_TEST(s.attention == r.attention);
            BOOST_TEST(!s.sentence.empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(hooks)
{
    policy_world w;
    w.want().hooks.push_back({.argv = {"/bin/true"}});
    BOOST_TEST(word_of(stand(w).deploy) == std::string("none"));
    auto& g = w.in_use();
    BOOST_TEST(word_of(stand(w).deploy) == std::string("done"));
    g.deployed_at.reset();
    BOOST_TEST(word_of(stand(w).deploy) == std::string("pending"));
    w.have().deploy_failure = w.fails("web");
    BOOST_TEST(word_of(stand(w).deploy) == std::string("failed"));
    w.want().hooks.clear();
    g.deployed_at = w.now;
    BOOST_TEST(word_of(stand(w).deploy) == std::string("none"));
}

BOOST_AUTO_TEST_CASE(what_is_retiring_and_when)
{
    policy_world w;
    w.in_use();
    w.superseded(1h);
    const auto retiring = stand(w).retiring;
    BOOST_REQUIRE(retiring.size() == 1u);
    BOOST_TEST(retiring[0].remote_id == "u-0");
    BOOST_TEST((retiring[0].delete_at == w.now + 23h));

    w.have().unwanted_since = w.now;
    w.drop("web");
    const auto all = stand(w).retiring;
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST((all[0].delete_at == w.now + 24h));
}

BOOST_AUTO_TEST_CASE(a_deletion_that_is_stopped_is_not_announced)
{
    policy_world w;
    w.in_use();
    w.drop("web");
    w.have().unwanted_since = w.now - 25h;
    BOOST_TEST(stand(w).retiring.size() == 1u);
    w.have().blocked = {.reason = "deletes_exceeded", .sentence = "too many", .since = w.now};
    BOOST_TEST(stand(w).retiring.empty());
}

BOOST_AUTO_TEST_CASE(a_paused_user_has_no_rotation_to_come)
{
    policy_world w;
    w.in_use();
    BOOST_TEST(stand(w).rotate_at.has_value());
    w.want().rotation.paused = true;
    BOOST_TEST(!stand(w).rotate_at);
    BOOST_TEST(stand(w).due_at.has_value());  // alerts watch it as it approaches its expiry
    BOOST_TEST(policy::word_of(stand(w).state) == std::string("valid"));
    BOOST_TEST(stand(w).sentence == "in use; its rotation is paused (rotation.paused)");
}

BOOST_AUTO_TEST_CASE(a_lead_of_the_whole_lifetime_is_warned_of)
{
    policy_world w;
    w.in_use();
    BOOST_TEST(stand(w).warning == "");
    w.want().rotation.renew_before = policy::duration(policy_world::lifetime);
    BOOST_TEST(stand(w).warning.find("rotation.renew_before (90 d)") == 0u);
    BOOST_TEST(!stand(w).attention);
}

BOOST_AUTO_TEST_CASE(counts_say_what_they_count)
{
    policy_world w;
    const auto told = [&] {
        return policy::tally_of(policy::statuses(w.desired, w.stored, w.now)).sentence();
    };
    for (const auto* name : {"web", "paused", "gone", "kept"})
        w.in_use(name);
    BOOST_TEST(told() == "4 of 4 users up to date");
    w.want("paused").rotation.paused = true;
    w.have("paused").blocked = {.reason = "paused", .sentence = "paused", .since = w.now};
    for (const auto* name : {"gone", "kept"}) {
        w.drop(name);
        w.have(name).unwanted_since = w.now;
    }
    w.have("kept").blocked = {.reason = "deletes_exceeded", .sentence = "too many", .since = w.now};
    BOOST_TEST(told() ==
               "1 of 2 users up to date, 1 paused, 1 being removed, 1 no longer in the configuration");
}

BOOST_AUTO_TEST_CASE(failures_and_the_next_attempt)
{
    policy_world w;
    w.in_use();
    w.have().failure = w.fails("web", retry::later, 60s);
    w.have().clear_failure = w.fails("web", retry::later, 5s);
    const auto s = stand(w);
    BOOST_TEST(s.failures == 2);
    BOOST_TEST(s.last_error == "it failed");
    BOOST_TEST((s.next_attempt == w.now + 5s));
}

BOOST_AUTO_TEST_CASE(users_of_the_file_first_then_those_that_left_it)
{
    policy_world w;
    w.in_use("b", '1');
    w.in_use("a", '2');
    w.drop("a");
    const auto all = policy::statuses(w.desired, w.stored, w.now);
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(all[0].name.user == "b");
    BOOST_TEST(all[1].name.user == "a");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
