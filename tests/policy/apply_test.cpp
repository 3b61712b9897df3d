#include "policy/action.hpp"
#include "policy/events.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

// apply() is the only code that changes a record: what each event changes, and what it leaves alone.

namespace {

using namespace std::chrono_literals;
namespace event = policy::event;
using support::policy_world;
using support::stage;

constexpr auto now = policy_world::start;

policy::stored_user after(policy::stored_user user, const policy::user_event& what)
{
    return policy::apply(std::move(user), what, now);
}

policy::failure hook_failed()
{
    return {.code = policy::errc::hook_failed, .context = "logs/web: hook failed"};
}

BOOST_AUTO_TEST_SUITE(apply)

BOOST_AUTO_TEST_CASE(a_new_generation_answers_what_was_asked_for)
{
    policy_world w;
    w.in_use();
    auto user = after(w.have(), event::rotation_requested{.retire_now = true});
    BOOST_TEST((user.rotate_asked_at == now && user.retire_now && user.creations.empty()));
    user.held = "aaaaaaaa";
    user.creations = {now - 25h, now - 1h};
    user = after(user, event::created{{.id = "bbbbbbbb"}, policy::reason::rotation_asked});
    BOOST_TEST((user.find("bbbbbbbb") && !user.rotate_asked_at && user.retire_now && user.held.empty()));
    BOOST_TEST((user.creations == std::vector<policy::instant>{now - 1h, now}));
    BOOST_TEST(user.deploy_reason == "rotation_asked");
    // --retire-now applied to the previous rotation only
    user = after(user, event::created{{.id = "cccccccc"}, policy::reason::rotation_due});
    BOOST_TEST(!user.retire_now);
}

BOOST_AUTO_TEST_CASE(a_rotation_is_not_asked_for_twice)
{
    policy_world w;
    w.in_use();
    w.on_its_way(stage::accepted);
    BOOST_TEST(!after(w.have(), event::rotation_requested{}).rotate_asked_at);
}

BOOST_AUTO_TEST_CASE(an_answer_with_the_id_of_another_generation_is_none)
{
    policy_world w;
    w.in_use();
    const auto in_use = w.have().find(w.have().current)->remote_id;
    const auto id = w.on_its_way(stage::kept).id;
    auto user = after(w.have(), event::submitting{id, "i-1"});
    user = after(user, event::accepted{id, in_use});
    BOOST_TEST((user.find(id)->remote_id.empty() && !user.find(id)->answered && !user.find(id)->accepted_at));
    BOOST_TEST(after(user, event::accepted{id, "u-b"}).find(id)->remote_id == "u-b");
}

BOOST_AUTO_TEST_CASE(the_way_of_a_post)
{
    policy_world w;
    auto& g = w.on_its_way(stage::kept);
    const auto id = g.id;
    auto user = after(w.have(), event::submitting{id, "i-1"});
    BOOST_TEST((user.find(id)->submitted_at == now && !user.find(id)->answered));
    BOOST_TEST((after(user, event::not_sent{id, std::nullopt, false}) == w.have()));
    const auto refused = after(user, event::refused{id, "400"});
    BOOST_TEST((refused.find(id)->answered && refused.find(id)->remote_id.empty()));
    user.failure = w.fails("web");
    BOOST_TEST(after(user, event::unanswered{id}).failure.has_value());
    user = after(user, event::accepted{id, "u-b"});
    BOOST_TEST((user.find(id)->remote_id == "u-b" && user.find(id)->accepted_at == now && !user.failure));
}

BOOST_AUTO_TEST_CASE(published_is_in_use_once_and_a_repair_after_that)
{
    policy_world w;
    w.in_use();
    auto& g = w.on_its_way(stage::collected);
    const auto old = w.have().current;
    auto user = after(w.have(), event::published{.generation = g.id, .rendered = "r", .hooks = true});
    BOOST_TEST((user.current == g.id && user.previous == old && user.rendered == "r"));
    BOOST_TEST((user.find(g.id)->published_at == now && !user.find(g.id)->deployed_at));
    user = after(user, event::failed{.of = policy::attempt::hooks, .what = hook_failed(), .wanted = "entry"});
    const auto repaired = after(user, event::published{.generation = g.id, .hooks = true});
    BOOST_TEST((repaired.previous == old && repaired.deploy_failure.has_value()));
    user = after(user, event::deployed{g.id});
    BOOST_TEST((user.find(g.id)->deployed_at == now && !user.deploy_failure));
}

BOOST_AUTO_TEST_CASE(failed_hooks_are_remembered_with_their_entry_and_next_attempt)
{
    policy_world w;
    w.in_use().deployed_at.reset();
    const event::failed failed{.of = policy::attempt::hooks, .what = hook_failed(), .wanted = "entry"};
    auto user = after(w.have(), failed);
    BOOST_TEST((user.deploy_failure->wanted == "entry" && user.deploy_failure->next_attempt > now));
    BOOST_TEST((!user.failure && !user.clear_failure));
    user = after(user, failed);
    BOOST_TEST(user.deploy_failure->count == 2);
    user = after(user, event::retry_requested{});
    BOOST_TEST((user.deploy_failure && !user.deploy_failure->next_attempt));
}

BOOST_AUTO_TEST_CASE(the_way_back)
{
    policy_world w;
    BOOST_TEST(policy::roll_back(w.have()).error().context ==
               "logs/web: no previous certificate to return to");
    w.in_use();
    w.superseded(1h);
    w.have().previous = w.at("web", '0').id;
    w.have().rotate_asked_at = now;
    const auto step = policy::roll_back(w.have());
    BOOST_REQUIRE(step);
    BOOST_TEST((step->generation == w.have().previous && step->why == policy::reason::rolled_back));
    auto user = after(w.have(), event::rolled_back{step->generation});
    user = after(user, event::published{.generation = step->generation, .hooks = true});
    BOOST_TEST((user.held == user.current && user.current == step->generation && !user.rotate_asked_at));
    BOOST_TEST(user.deploy_reason == "rollback");
    BOOST_TEST(policy::pending_hooks(user, false)->generation == user.current);
    user = after(user, event::deployed{user.current});
    BOOST_TEST(!policy::pending_hooks(user, false));
    BOOST_TEST(policy::pending_hooks(user, true).has_value());
    w.at("web", '0').missing_since = now;
    BOOST_TEST(!policy::can_roll_back(w.have()));
    BOOST_TEST(policy::exit_code::of(policy::roll_back(w.have()).error().code) == policy::exit_code::failed);
}

BOOST_AUTO_TEST_CASE(what_ends)
{
    policy_world w;
    w.in_use();
    const auto id = w.superseded(24h).id;
    w.have().retire_now = true;
    const auto user = after(w.have(), event::retired{id});
    BOOST_TEST((!user.find(id) && !user.retire_now));
    BOOST_TEST((after(w.have(), event::missing{id, ""}).find(id)->missing_since == now));
    BOOST_TEST(after(w.have(), event::abandoned{id, ""}).find(id)->abandoned);
    BOOST_TEST((after(after(w.have(), event::unwanted{}), event::wanted_again{}) == w.have()));
}

// A record may change before an answer arrives: an event for an unknown generation is ignored.
BOOST_AUTO_TEST_CASE(an_unknown_generation_changes_nothing)
{
    policy_world w;
    w.in_use();
    for (const policy::user_event& what : std::vector<policy::user_event>{
             event::accepted{"ffffffff", "u-f"}, event::submitting{"ffffffff", "i-1"},
             event::published{.generation = "ffffffff"}, event::deployed{"ffffffff"},
             event::missing{"ffffffff", ""}, event::discarded{"ffffffff"}})
        BOOST_TEST((after(w.have(), what) == w.have()));
}

BOOST_AUTO_TEST_CASE(an_exposure_remembers_its_instance_and_its_failure)
{
    policy::stored_exposure e{.name = "logs"};
    e = policy::apply(e, event::onboarding{}, now);
    BOOST_TEST((e.onboarding_since == now));
    e = policy::apply(e, event::instance_found{"i-1"}, now);
    BOOST_TEST((e.where.instance_id == "i-1" && !e.onboarding_since));
    e = policy::apply(e, event::exposure_failed{hook_failed(), "look"}, now);
    BOOST_TEST(e.failure->wanted == "look");
    e = policy::apply(e, event::exposure_recovered{}, now);
    e = policy::apply(e, event::instance_forgotten{}, now);
    BOOST_TEST((!e.failure && e.where.instance_id.empty()));
}

BOOST_AUTO_TEST_CASE(intents_count_once_they_are_stored)
{
    BOOST_TEST(policy::must_be_stored(event::submitting{}));
    BOOST_TEST(policy::must_be_stored(event::created{}));
    BOOST_TEST(policy::must_be_stored(event::recovered{}));
    BOOST_TEST(!policy::must_be_stored(event::accepted{}));
    BOOST_TEST(!policy::must_be_stored(event::published{}));
    BOOST_TEST(policy::must_be_stored(policy::exposure_event(event::exposure_recovered{})));
}

BOOST_AUTO_TEST_CASE(the_line_of_an_event)
{
    policy_world w;
    w.in_use();
    const auto line = [&](const policy::user_event& what) {
        const auto told = policy::describe(w.have(), what, now, {policy::actor::person, "anna"});
        if (told) {
            BOOST_TEST((told->at == now && told->by == "anna"));
        }
        return told ? told->event + "|" + told->generation + "|" + told->detail : "";
    };
    BOOST_TEST(line(event::accepted{"bbbbbbbb", "u-b"}) == "accepted|bbbbbbbb|user u-b");
    BOOST_TEST(line(event::retired{w.have().current}) == "retired|" + w.have().current + "|user u-a");
    BOOST_TEST(line(event::published{.generation = "bbbbbbbb"}) == "in_use|bbbbbbbb|");
    BOOST_TEST(line(event::published{.generation = w.have().current, .why = "key.pem is missing"}) ==
               "republished|" + w.have().current + "|key.pem is missing");
    BOOST_TEST(line(event::retry_requested{}) == "");
    const event::failed failed{.of = policy::attempt::hooks, .what = hook_failed()};
    BOOST_TEST(line(failed) == "hooks_failed||logs/web: hook failed");
    w.have() = after(w.have(), failed);
    BOOST_TEST(line(failed) == "");  // only repeated, so not shown again
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
