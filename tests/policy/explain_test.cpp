#include "policy/plan.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

namespace {

using namespace std::chrono_literals;
using support::policy_world;
using support::stage;

policy::explanation explain(const policy_world& w)
{
    return policy::explain(w.desired, w.observed, w.stored, w.plan(), {"logs", "web"}, w.now);
}

std::string fact(const policy::explanation& e, const std::string& name)
{
    const auto found = std::ranges::find(e.facts, name, [](const auto& f) { return f.first; });
    return found == e.facts.end() ? "none" : found->second;
}

BOOST_AUTO_TEST_SUITE(explain_a_decision)

BOOST_AUTO_TEST_CASE(the_evidence_of_a_decision_in_order)
{
    policy_world w;
    w.in_use();
    const auto e = explain(w);
    BOOST_TEST(fact(e, "now") == "2027-01-15T08:00:00Z");
    BOOST_TEST(fact(e, "owner") == "web-01");
    BOOST_TEST(fact(e, "in_file") == "yes");
    BOOST_TEST(fact(e, "instance") == "i-1");
    BOOST_TEST(fact(e, "current") == "aaaaaaaa");
    BOOST_TEST(fact(e, "current_remote_id") == "u-a");
    BOOST_TEST(fact(e, "current_on_platform") == "READY");
    BOOST_TEST(fact(e, "pending") == "none");
    BOOST_TEST((e.decision.why == policy::reason::healthy));
    BOOST_TEST(e.decision.next == "rotate");
    BOOST_TEST((e.decision.next_at > w.now));
    BOOST_TEST(e.would_change.size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_paused_user_has_no_rotation_to_come)
{
    policy_world w;
    w.in_use();
    const auto wakes = w.plan().wake_at;
    w.want().rotation.paused = true;
    const auto e = explain(w);
    BOOST_TEST(fact(e, "rotate_at") == "never, rotation.paused is true");
    BOOST_TEST(e.decision.next == "");
    BOOST_TEST(!e.decision.next_at);
    BOOST_TEST(e.would_change.front() == "rotation.paused: false");
    BOOST_TEST((w.plan().wake_at == wakes));
}

BOOST_AUTO_TEST_CASE(nothing_is_known_of_a_user_that_is_new)
{
    policy_world w;
    w.want();
    const auto e = explain(w);
    BOOST_TEST(fact(e, "current") == "none");
    BOOST_TEST((e.decision.why == policy::reason::absent));
    BOOST_TEST(e.decision.next == "create");
    BOOST_TEST((e.decision.next_at == w.now));
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_person_says_what_would_change_it)
{
    policy_world w;
    w.want();
    w.have().creations = {w.now, w.now, w.now};
    const auto e = explain(w);
    BOOST_TEST(e.decision.blocked);
    BOOST_TEST(e.decision.next == "");
    BOOST_TEST(e.would_change.size() == 1u);
    BOOST_TEST(fact(e, "made_within_a_day") == "3");
}

BOOST_AUTO_TEST_CASE(a_removal_has_its_action_and_time)
{
    policy_world w;
    w.in_use();
    w.drop("web");
    w.have().unwanted_since = w.now - 1h;
    const auto e = explain(w);
    BOOST_TEST((e.decision.why == policy::reason::not_in_file));
    BOOST_TEST(e.decision.next == "remove");
    BOOST_TEST((e.decision.next_at == w.now + 23h));
    BOOST_TEST(e.would_change.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_changed_entry_says_from_what_to_what_and_what_would_change_it)
{
    policy_world w;
    w.in_use();
    w.want().consumer_group = "siem-2";
    const auto e = explain(w);
    BOOST_TEST(e.decision.sentence == "consumer_group changed: siem → siem-2");
    BOOST_TEST(e.would_change.size() == 1u);
    w.want().consumer_group = "siem";
    w.want().description = "SIEM";
    BOOST_TEST(explain(w).decision.sentence == "description changed: (none) → SIEM");
}

BOOST_AUTO_TEST_CASE(a_back_off_says_what_comes_after_it)
{
    policy_world w;
    w.want();
    w.have().failure = w.fails("web", policy::retry::after_change);
    const auto e = explain(w);
    BOOST_TEST(e.decision.sentence == "it failed");
    BOOST_TEST(e.decision.next == "create");
    BOOST_TEST((e.decision.next_at == w.now + 60s));
}

BOOST_AUTO_TEST_CASE(an_exposure_that_refuses_is_shown_also_where_nothing_is_due)
{
    policy_world w;
    w.in_use();
    w.seen() = {.observed_at = w.now,
                .error = policy::failure{.code = policy::errc::forbidden, .context = "403 Forbidden"}};
    BOOST_TEST(fact(explain(w), "platform_error") == "403 Forbidden");
    w.want().contact = "other@example.com";
    const auto e = explain(w);
    BOOST_TEST(e.decision.sentence == "403 Forbidden");
    BOOST_TEST_REQUIRE(e.would_change.size() == 1u);
    BOOST_TEST(e.would_change.front().find("role") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_gate_of_the_exposure_shows)
{
    policy_world w;
    w.want();
    w.seen().instances.clear();
    const auto e = explain(w);
    BOOST_TEST((e.decision.why == policy::reason::instance_vanished));
    BOOST_TEST(e.decision.blocked);
    BOOST_TEST(!e.would_change.empty());
}

BOOST_AUTO_TEST_CASE(a_generation_on_its_way_and_failures)
{
    policy_world w;
    w.in_use();
    w.on_its_way(stage::accepted);
    w.have().failure = w.fails("web");
    const auto e = explain(w);
    BOOST_TEST(fact(e, "pending") == "bbbbbbbb");
    BOOST_TEST(fact(e, "pending_on_platform") == "IN PROGRESS");
    BOOST_TEST(fact(e, "pending_published") == "not yet");
    BOOST_TEST(fact(e, "last_failure") == "it failed");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
