#include "agent/reconcile/execute.hpp"
#include "policy/action.hpp"
#include "policy/status.hpp"
#include "tests/support/small_world.hpp"

#include <boost/test/unit_test.hpp>

// The executor against scripted ports: given these answers, these requests are sent in this order, and this
// is on disk afterwards.

namespace {

using support::small_world;
using words = std::vector<std::string>;
using policy::errc;

policy::failure failing(errc code)
{
    return {.code = code, .context = "trouble"};
}

// Fails the n-th call of this name, once.
auto strike(std::string call, int nth, errc code, bool done_all_the_same = false)
{
    return [=, seen = 0](const std::string& now, bool& done) mutable -> std::optional<policy::failure> {
        if (now != call || ++seen != nth) return std::nullopt;
        done = done_all_the_same;
        return failing(code);
    };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reconcile_dialogue)

BOOST_AUTO_TEST_CASE(an_empty_tenant_becomes_a_certificate_in_use)
{
    small_world w;
    BOOST_TEST(w.reconcile().converged());
    const words expected = {"list_instances", "create_instance", "list_instances",
                            "list_users",     "create_user",     "read_instance",
                            "read_user",      "read_user",       "publish logs/siem"};
    const auto said = w.said.take();
    BOOST_TEST(said == expected, boost::test_tools::per_element());
    BOOST_TEST(w.publisher.current.at("/out/siem") == w.kept().current);
    BOOST_TEST(w.publisher.torn.empty());
    const words history = {"created", "submitted", "accepted", "issued", "in_use"};
    words told;
    for (const auto& happened : w.store.events)
        told.push_back(happened.event);
    BOOST_TEST(told == history, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(nothing_due_costs_what_is_ours)
{
    small_world w;
    w.reconcile();
    w.said.take();
    const words quiet = {"read_instance", "read_user"};
    const words listed = {"list_instances", "list_users"};
    const auto said_of_a_pass = [&w] {
        BOOST_TEST(w.reconcile().converged());
        return w.said.take();
    };
    BOOST_TEST(said_of_a_pass() == quiet, boost::test_tools::per_element());
    // the list is searched for duplicates once the POST has settled, and then once a day
    w.clock.step(std::chrono::seconds(16));
    BOOST_TEST(said_of_a_pass() == listed, boost::test_tools::per_element());
    BOOST_TEST(said_of_a_pass() == quiet, boost::test_tools::per_element());
    w.clock.step(std::chrono::hours(24));
    BOOST_TEST(said_of_a_pass() == listed, boost::test_tools::per_element());
    BOOST_TEST(said_of_a_pass() == quiet, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(missing_by_id_is_confirmed_by_the_list)
{
    small_world w;
    w.reconcile();
    w.clock.step(std::chrono::seconds(16));
    w.reconcile();
    const auto kept = w.kept().current;
    // listed, but a single read returns 404: a transient inconsistency
    w.said.take();
    w.platform.trouble = strike("read_user", 1, errc::not_found);
    BOOST_TEST(w.reconcile().converged());
    const words confirmed = {"read_instance", "read_user", "list_instances", "list_users"};
    BOOST_TEST(w.said.take() == confirmed, boost::test_tools::per_element());
    BOOST_TEST(w.kept().current == kept);
    BOOST_TEST(!w.kept().generations.front().missing_since);
    // gone from both: replaced in the same pass
    w.platform.trouble = {};
    w.platform.users.clear();
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.kept().current != kept);
}

// An incomplete list says nothing about missing users, and a single 404 may be wrong.
BOOST_AUTO_TEST_CASE(missing_from_a_part_of_the_list_is_asked_for_twice)
{
    small_world w;
    w.reconcile();
    w.platform.unlisted = {w.platform.users.begin()->first};
    w.platform.cut_off = true;
    w.clock.step(std::chrono::hours(24));
    w.platform.trouble = strike("read_user", 1, errc::not_found);
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(!w.kept().generations.front().missing_since);
    BOOST_TEST(w.platform.requests.size() == 1U);

    w.platform.trouble = {};
    w.platform.users.clear();
    w.clock.step(std::chrono::hours(24));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.requests.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_stop_request_ends_the_pass)
{
    small_world w;
    w.platform.trouble = [&](const std::string& call, bool&) -> std::optional<policy::failure> {
        if (call != "create_user") return std::nullopt;
        w.clock.stop();
        return failing(errc::stopping);
    };
    BOOST_TEST(!w.reconcile().converged());
    const auto said = w.said.take();
    BOOST_TEST(std::ranges::count(said, "create_user") == 1);
}

// One unreadable user blocks nothing else; if the whole platform fails, the list is not requested.
BOOST_AUTO_TEST_CASE(a_single_read_that_fails_is_no_verdict)
{
    struct row {
        const char* call;
        errc code;
        bool listed;
    };
    const row rows[] = {
        {"read_user", errc::bad_answer, true},       {"read_user", errc::refused, true},
        {"read_user", errc::unavailable, false},     {"read_user", errc::not_connected, false},
        {"read_instance", errc::bad_answer, true},   {"read_instance", errc::not_found, true},
        {"read_instance", errc::unavailable, false}, {"read_instance", errc::forbidden, false},
    };
    for (const auto& r : rows) {
        small_world w;
        w.reconcile();
        w.clock.step(std::chrono::seconds(16));
        w.reconcile();
        w.said.take();
        w.platform.trouble = [&](const std::string& call, bool&) {
            return call == r.call ? std::optional(failing(r.code)) : std::nullopt;
        };
        const auto report = w.reconcile();
        const auto said = w.said.take();
        BOOST_TEST((std::ranges::count(said, "list_users") == 1) == r.listed,
                   r.call << " " << word_of(r.code));
        BOOST_TEST(report.exposures.empty() == r.listed);
        BOOST_TEST(w.platform.requests.size() == 1U);
        BOOST_TEST(!w.kept().generations.front().missing_since);
    }
}

// The list is not due again, so no pass sees the duplicate; the retirement finds it by itself.
BOOST_AUTO_TEST_CASE(a_generation_goes_with_its_doubles)
{
    small_world w;
    w.siem().rotation.retire_after = std::chrono::hours(1);
    w.reconcile();
    w.clock.step(std::chrono::seconds(16));
    w.reconcile();
    w.siem().contact = "other@example.com";
    w.reconcile();
    w.clock.step(std::chrono::seconds(16));
    w.reconcile();
    auto twin = w.platform.users.begin()->second;
    twin.user.id = "user-9";
    w.platform.users.emplace(twin.user.id, twin);
    w.clock.step(std::chrono::hours(1));
    w.said.take();
    BOOST_TEST(w.reconcile().converged());
    const auto said = w.said.take();
    BOOST_TEST(said.front() == "read_instance");
    BOOST_TEST(std::ranges::count(said, "delete_user") == 2);
    BOOST_TEST(w.platform.users.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_lost_answer_is_found_again_by_its_marker)
{
    small_world w;
    w.platform.add_instance();
    w.platform.trouble = strike("create_user", 1, errc::no_answer, true);
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.requests.size() == 1U);
    BOOST_TEST(w.platform.users.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_request_that_was_lost_is_sent_again_with_the_same_csr_after_the_settle_time)
{
    small_world w;
    w.platform.add_instance();
    w.platform.trouble = strike("create_user", 1, errc::no_answer);
    const auto began = w.clock.now();
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST_REQUIRE(w.platform.requests.size() == 2U);
    BOOST_TEST(w.platform.requests[0] == w.platform.requests[1]);
    BOOST_TEST(((w.clock.now() - began) >= w.desired.reconcile.settle));
}

BOOST_AUTO_TEST_CASE(a_full_disk_sends_nothing)
{
    small_world w;
    w.reconcile();
    w.siem().contact = "other@example.com";
    w.store.full = true;
    BOOST_TEST(!w.reconcile().converged());
    BOOST_TEST(w.platform.requests.size() == 1U);
    BOOST_TEST(w.publisher.current.at("/out/siem") == w.kept().current);
    w.store.full = false;
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_old_user_goes_after_the_new_one_is_in_use_and_its_hooks_have_passed)
{
    small_world w;
    w.reconcile();
    w.said.take();
    w.siem().hooks.push_back({.argv = {"/bin/true"}});
    w.siem().consumer_group = "other";
    w.hooks.failures = 1;
    BOOST_TEST(w.reconcile().converged());
    const auto said = w.said.take();
    const auto place = [&](const std::string& word) { return std::ranges::find(said, word) - said.begin(); };
    BOOST_TEST(std::ranges::count(said, "hooks logs/siem group_changed") == 2);
    BOOST_TEST(place("create_user") < place("publish logs/siem"));
    BOOST_TEST(place("publish logs/siem") < place("hooks logs/siem group_changed"));
    BOOST_TEST(place("hooks logs/siem group_changed") < place("delete_user"));
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(w.kept().generations.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_hook_that_fails_after_a_switch_shows_the_way_back)
{
    small_world w;
    w.siem().rotation.retire_after = std::chrono::hours(24);
    w.siem().hooks.push_back({.argv = {"/bin/true"}});
    w.hooks.failures = 1000;
    w.reconcile();
    BOOST_TEST(w.kept().deploy_failure.value().sentence == "the hook said no");
    w.siem().contact = "other@example.com";
    w.reconcile();
    BOOST_TEST(
        w.kept().deploy_failure.value().sentence ==
        "the hook said no; to return to the previous certificate, run: exposure-agent rollback logs/siem");
}

// Another command on the same exposure.
BOOST_AUTO_TEST_CASE(others_have_their_turn_while_hooks_run)
{
    small_world w;
    w.siem().hooks.push_back({.argv = {"/bin/true"}});
    bool served = false;
    w.hooks.meanwhile = [&]() -> io::awaitable<void> {
        const auto held = co_await w.state->take("logs");
        policy::user_event asked = policy::event::rotation_requested{false};
        const policy::user_name siem{"logs", "siem"};
        const auto saved = co_await w.state->record(held, siem, std::move(asked));
        served = saved.has_value();
    };
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(served);
    BOOST_TEST(w.platform.requests.size() == 2U);
}

BOOST_AUTO_TEST_CASE(hooks_of_one_user_run_once_at_a_time)
{
    small_world w;
    w.siem().hooks.push_back({.argv = {"/bin/true"}});
    bool over = false;
    std::optional<reconcile::report> other;
    w.hooks.meanwhile = [&]() -> io::awaitable<void> {
        boost::asio::co_spawn(
            w.context,
            [&]() -> io::awaitable<void> {
                other.emplace(co_await reconcile::run(*w.state, reconcile::run_options()));
                BOOST_TEST(over);
            },
            [](std::exception_ptr error) {
                if (error) std::rethrow_exception(error);
            });
        co_await w.clock.sleep_for(std::chrono::minutes(1));
        over = true;
    };
    BOOST_TEST(w.reconcile().converged());
    w.context.restart();
    w.context.poll();
    BOOST_REQUIRE(other.has_value());
    BOOST_TEST(other->converged());
    BOOST_TEST(std::ranges::count_if(w.said.take(),
                                     [](const auto& line) { return line.starts_with("hooks "); }) == 1);
}

// A certificate switched to while hooks ran has hooks of its own; failures of the earlier hooks do not count.
BOOST_AUTO_TEST_CASE(the_end_of_hooks_counts_for_the_certificate_that_they_ran_for)
{
    for (const int failures : {0, 1}) {
        small_world w;
        w.siem().hooks.push_back({.argv = {"/bin/true"}});
        w.siem().rotation.retire_after = std::chrono::hours(24);
        w.reconcile();
        const auto first = w.kept().current;
        w.siem().contact = "other@example.com";
        w.hooks.failures = failures;
        w.said.take();
        w.hooks.meanwhile = [&]() -> io::awaitable<void> {
            const auto held = co_await w.state->take("logs");
            const auto back = policy::roll_back(w.state->stored().users.at({"logs", "siem"}));
            reconcile::executor executor(*w.state, held);
            BOOST_REQUIRE(back.has_value());
            const auto done = co_await executor.perform(*back);
            BOOST_TEST(done.has_value());
        };
        BOOST_TEST(w.reconcile().converged());
        const auto said = w.said.take();
        BOOST_TEST(std::ranges::count(said, "hooks logs/siem contact_changed") == 1);
        BOOST_TEST(std::ranges::count(said, "hooks logs/siem rollback") == 1);
        BOOST_TEST(w.kept().current == first);
        BOOST_TEST(w.kept().find(first)->deployed_at.has_value());
        BOOST_TEST(!w.kept().find(w.kept().previous)->deployed_at.has_value());
        BOOST_TEST(!w.kept().deploy_failure.has_value());
    }
}

BOOST_AUTO_TEST_CASE(a_user_that_is_removed_while_its_hooks_run_is_not_brought_back)
{
    small_world w;
    w.siem().hooks.push_back({.argv = {"/bin/true"}});
    w.hooks.meanwhile = [&]() -> io::awaitable<void> {
        w.state->replace_desired(std::make_shared<const policy::desired_state>());
        const auto held = co_await w.state->take("logs");
        w.state->forget(held, {"logs", "siem"});
    };
    w.reconcile();
    BOOST_TEST(w.state->stored().users.empty());
}

// The pass had already planned a creation.
BOOST_AUTO_TEST_CASE(a_host_that_leaves_creates_nothing_any_more)
{
    small_world w;
    w.platform.add_instance();
    w.platform.trouble = [&](const std::string& call, bool&) -> std::optional<policy::failure> {
        if (call == "list_users")
            boost::asio::co_spawn(
                w.context, w.state->leave(policy::decommission{.since = w.clock.now()}),
                [](std::exception_ptr, const policy::result<void>& left) { BOOST_TEST(left.has_value()); });
        return std::nullopt;
    };
    w.reconcile();
    BOOST_TEST(w.state->stored().leaving.has_value());
    BOOST_TEST(w.platform.requests.empty());
}

// The caller is gone when its turn comes: nothing is done, and others are not held up.
BOOST_AUTO_TEST_CASE(what_is_not_begun_changes_nothing)
{
    small_world w;
    w.reconcile();
    w.said.take();
    const auto before = w.kept();
    reconcile::run_options options;
    options.begin = [](const reconcile::state::hold&) -> io::task<void> {
        co_return failing(errc::stopping);
    };
    const auto report = w.reconcile(options);
    BOOST_TEST(!report.converged());
    BOOST_TEST(w.said.take().empty());
    BOOST_TEST((w.kept() == before));
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_broker_is_waited_for_while_access_is_granted)
{
    small_world w;
    w.siem().verify = true;
    w.desired.exposures.front().broker = "broker.example.com:9093";
    w.broker.refusals = 5;
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST((w.kept().generations.front().verified == policy::verification::broker));
}

BOOST_AUTO_TEST_CASE(a_certificate_that_the_broker_refuses_is_never_switched_to)
{
    small_world w;
    w.reconcile();
    const auto in_use = w.kept().current;
    w.siem().verify = true;
    w.siem().contact = "other@example.com";
    w.desired.exposures.front().broker = "broker.example.com:9093";
    w.broker.verdict = deploy::verify_verdict::refused_tls;
    BOOST_TEST(!w.reconcile({.timeout = std::chrono::hours(1)}).converged());
    BOOST_TEST(w.kept().current == in_use);
    BOOST_TEST(w.publisher.current.at("/out/siem") == in_use);
    BOOST_TEST(w.platform.users.size() == 2U);
}

// The message for a certificate that the broker does not accept, given its verdict on the one in use.
std::string sentence_of(deploy::verify_verdict fresh, deploy::verify_verdict in_use,
                        std::chrono::seconds timeout)
{
    small_world w;
    w.reconcile();
    w.broker.of_generation[w.kept().current] = in_use;
    w.broker.verdict = fresh;
    w.siem().verify = true;
    w.siem().contact = "other@example.com";
    w.desired.exposures.front().broker = "broker.example.com:9093";
    const auto report = w.reconcile({.timeout = timeout});
    BOOST_TEST(!report.converged());
    BOOST_TEST(w.publisher.current.at("/out/siem") != w.kept().generations.back().id);
    return w.kept().failure.value().sentence;
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_from_a_broker_that_is_away_by_the_pair_in_use)
{
    using enum deploy::verify_verdict;
    using namespace std::chrono_literals;
    struct row {
        deploy::verify_verdict fresh;
        deploy::verify_verdict in_use;
        std::chrono::seconds timeout;
        const char* said;
    };
    const row rows[] = {
        {refused_tls, accepted, 60s,
         "; it still accepts the certificate in use, which is kept; retrying, as the platform may still be"},
        {refused_tls, accepted, 1h, "; ask the platform's operator why logs-orion-123-siem-"},
        {group_not_granted, refused_tls, 60s,
         "; it does not accept the certificate in use either (said the broker), which is kept; retrying"},
        {group_not_granted, unreachable, 60s,
         "(said the broker); keeping the certificate in use; retrying, as the platform may"},
        {unreachable, unreachable, 60s,
         "did not confirm that it accepts the new certificate (said the broker); "
         "keeping the certificate in use. Retrying. To check the connection"},
        {unreachable, accepted, 60s,
         "; it still accepts the certificate in use, which is kept. Retrying. To check the connection"},
    };
    for (const auto& r : rows) {
        const auto said = sentence_of(r.fresh, r.in_use, r.timeout);
        BOOST_TEST(said.find(r.said) != std::string::npos, said);
    }
}

BOOST_AUTO_TEST_CASE(a_topic_that_is_not_granted_is_named_with_the_one_that_the_instance_suggests)
{
    const auto said_with = [](const std::string& topic) {
        small_world w;
        w.siem().verify = true;
        w.desired.exposures.front().broker = "broker.example.com:9093";
        w.desired.exposures.front().topic = topic;
        w.broker.verdict = deploy::verify_verdict::topic_not_granted;
        w.reconcile({.timeout = std::chrono::hours(1)});
        BOOST_TEST((w.kept().failure.value().kind == policy::retry::after_change));
        return w.kept().failure.value().sentence;
    };
    const auto wrong = said_with("logs-orion");
    BOOST_TEST(
        wrong.find(
            "; check `topic` of exposure logs (logs-orion): the platform's instance is named i; ask") !=
            std::string::npos,
        wrong);
    const auto same = said_with("i");
    BOOST_TEST(same.find("; check `topic` of exposure logs (i); ask") != std::string::npos, same);
}

BOOST_AUTO_TEST_CASE(a_changed_owner_creates_nothing_before_a_person_accepts_it)
{
    small_world w;
    w.siem().rotation.retire_after = std::chrono::hours(24);
    w.reconcile();
    const auto first = w.kept().current;
    w.desired.owner = "web-02";
    BOOST_TEST(!w.reconcile().converged());
    BOOST_TEST(w.platform.requests.size() == 1U);
    BOOST_TEST(w.kept().blocked.value().reason == "owner_changed");
    BOOST_TEST(w.kept().blocked.value().sentence.find("owner changed: web-01 → web-02") == 0U);

    BOOST_TEST(w.reconcile({.plan = {.accept_loss = true}}).converged());
    BOOST_TEST(w.kept().current != first);
    BOOST_TEST(w.platform.users.size() == 2U);
    auto after = w.store.saved;
    after.owner = "web-02";
    const auto standings = policy::statuses(w.desired, after, w.clock.now());
    BOOST_TEST(standings.front().retiring.empty());
}

BOOST_AUTO_TEST_CASE(a_delete_is_believed_when_a_read_says_404)
{
    small_world w;
    w.reconcile();
    w.desired.exposures.front().users.clear();
    w.platform.trouble = [](const std::string& call, bool& done) -> std::optional<policy::failure> {
        done = false;
        return call == "delete_user" ? std::optional(failing(errc::unavailable)) : std::nullopt;
    };
    w.reconcile();
    w.reconcile();
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(w.store.saved.users.size() == 1U);
    w.platform.trouble = {};
    w.clock.step(std::chrono::hours(48));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.empty());
    BOOST_TEST(w.store.saved.users.empty());
    BOOST_TEST(w.publisher.current.empty());
}

// A user that was never fetched is read before its deletion: a wrong 404 must not make its key be forgotten.
BOOST_AUTO_TEST_CASE(a_listed_user_is_not_gone_by_the_word_of_one_404)
{
    small_world w;
    const auto reads_fail_with = [&](errc code) {
        w.platform.trouble = [code](const std::string& call, bool& done) -> std::optional<policy::failure> {
            done = false;
            return call == "read_user" ? std::optional(failing(code)) : std::nullopt;
        };
    };
    reads_fail_with(errc::unavailable);
    w.reconcile({.timeout = std::chrono::seconds(1)});
    BOOST_TEST(w.platform.users.size() == 1U);
    w.platform.trouble = {};
    w.siem().consumer_group = "other";
    w.reconcile({.timeout = std::chrono::seconds(1)});
    BOOST_TEST(w.platform.users.size() == 2U);
    w.clock.step(std::chrono::hours(24));  // the daily list
    reads_fail_with(errc::not_found);
    w.reconcile({.timeout = std::chrono::seconds(1)});
    BOOST_TEST(w.platform.users.size() == 2U);
    BOOST_TEST(w.kept().generations.size() == 2U);
    w.platform.trouble = {};
    w.clock.step(std::chrono::hours(24));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(w.kept().generations.size() == 1U);
}

// That a user is unwanted is kept in memory if the disk refuses it: the failed step is not planned again.
BOOST_AUTO_TEST_CASE(a_failed_step_that_is_not_planned_any_more_is_not_waited_for)
{
    small_world w;
    w.siem().rotation.retire_after = std::chrono::hours(24);
    w.reconcile();
    w.desired.exposures.front().users.clear();
    w.store.full = true;
    w.said.take();
    w.reconcile({.timeout = std::chrono::minutes(15)});
    BOOST_TEST(w.said.take().size() < 50U);
}

// Its exposure is gone from the file, so no pass observed the old user: its marker is read before the delete.
BOOST_AUTO_TEST_CASE(a_user_that_no_look_showed_is_read_before_it_is_deleted)
{
    enum class mark { ours, cut_off, foreign, none };
    for (const auto shown : {mark::ours, mark::cut_off, mark::foreign, mark::none}) {
        small_world w;
        w.reconcile();
        auto& there = w.platform.users.begin()->second.user;
        if (shown != mark::ours) there.mark.reset();
        if (shown == mark::cut_off) there.description.resize(there.description.size() - 10);
        if (shown == mark::none) there.description = "not yours";
        if (shown == mark::foreign) there.mark = policy::marker{.owner = "web-02", .name = w.kept().name};
        w.platform.unlisted.insert(there.id);
        w.desired.exposures.clear();
        w.said.take();
        const bool ours = shown == mark::ours || shown == mark::cut_off;
        BOOST_TEST(w.reconcile().converged() == ours);
        const auto said = w.said.take();
        const auto first = std::ranges::find(said, "read_user") - said.begin();
        const auto gone = std::ranges::find(said, "delete_user") - said.begin();
        BOOST_TEST(first < gone);
        BOOST_TEST(w.platform.users.empty() == ours);
        BOOST_TEST(w.store.saved.users.empty() == ours);
    }
}

BOOST_AUTO_TEST_CASE(a_user_with_a_copied_marker_is_never_deleted)
{
    small_world w;
    w.reconcile();
    w.platform.copy_marker(w.platform.users.begin()->first, "somebody-else");
    w.clock.step(std::chrono::seconds(16));  // the list is searched for duplicates
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.size() == 2U);
    BOOST_TEST((w.kept().generations.front().not_ours == words{"somebody-else"}));
    BOOST_TEST(w.store.events.back().event == "not_ours");

    // it is examined once only
    w.said.take();
    w.clock.step(std::chrono::hours(24));  // the daily list
    BOOST_TEST(w.reconcile().converged());
    const auto quiet = w.said.take();
    BOOST_TEST(std::ranges::count(quiet, "read_user") == 0);

    w.desired.exposures.clear();
    w.clock.step(std::chrono::hours(48));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.store.saved.users.empty());
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(w.platform.users.contains("somebody-else"));
}

BOOST_AUTO_TEST_CASE(a_user_with_a_copied_marker_outlives_the_removal_of_the_one_it_was_copied_from)
{
    small_world w;
    w.reconcile();
    w.platform.copy_marker(w.platform.users.begin()->first, "somebody-else");
    w.desired.exposures.clear();
    w.reconcile();
    w.clock.step(std::chrono::hours(48));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.store.saved.users.empty());
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(w.platform.users.contains("somebody-else"));
}

BOOST_AUTO_TEST_CASE(a_second_user_with_our_key_is_deleted)
{
    small_world w;
    w.reconcile();
    auto twin = w.platform.users.begin()->second;
    twin.user.id = "twin";
    w.platform.users["twin"] = twin;
    w.clock.step(std::chrono::seconds(16));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.size() == 1U);
    BOOST_TEST(!w.platform.users.contains("twin"));
}

BOOST_AUTO_TEST_CASE(the_id_in_an_answer_is_confirmed_before_it_is_relied_on)
{
    for (const bool marked : {true, false}) {
        small_world w;
        w.reconcile();
        const auto others = w.platform.users.begin()->first;
        if (!marked) {
            w.platform.users.at(others).user.description = "somebody's";
            w.platform.users.at(others).user.mark.reset();
        }
        auto second = w.siem();
        second.name = "audit";
        second.output.directory = "/out/audit";
        w.desired.exposures.front().users.push_back(second);
        w.platform.misnamed = others;
        BOOST_TEST(w.reconcile().converged());
        const auto& audit = w.store.saved.users.at({"logs", "audit"});
        BOOST_TEST(audit.find(audit.current)->remote_id != others);
        BOOST_TEST(audit.generations.size() == 1U);
        BOOST_TEST(w.platform.requests.size() == 2U);
        BOOST_TEST(w.platform.users.size() == 2U);
    }
}

BOOST_AUTO_TEST_CASE(a_failed_issue_is_made_again_within_the_budget_and_is_said)
{
    small_world w;
    w.platform.failing = 1;
    BOOST_TEST(w.reconcile().converged());
    w.clock.step(std::chrono::minutes(1));
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.platform.users.size() == 1U);

    small_world broken;
    broken.platform.failing = 1000;
    const auto report = broken.reconcile();
    BOOST_TEST(!report.converged());
    BOOST_TEST(broken.platform.requests.size() == 3U);
    BOOST_TEST(broken.kept().failure.value().sentence.find("the platform reports FAILED for user user-3") !=
               std::string::npos);
    broken.clock.step(std::chrono::hours(1));
    BOOST_TEST(!broken.reconcile().converged());
    BOOST_TEST(broken.platform.requests.size() == 3U);
    BOOST_TEST(broken.kept().blocked.value().reason == "budget_spent");
}

BOOST_AUTO_TEST_CASE(a_user_that_the_platform_does_not_have_any_more_is_gone)
{
    small_world w;
    w.reconcile();
    w.platform.users.clear();
    w.desired.exposures.clear();
    w.said.take();
    BOOST_TEST(w.reconcile().converged());
    const auto said = w.said.take();
    BOOST_TEST(std::ranges::count(said, "delete_user") == 0);
    BOOST_TEST(w.store.saved.users.empty());
}

BOOST_AUTO_TEST_CASE(an_earlier_expiration_date_counts_when_it_is_first_seen)
{
    small_world w;
    w.reconcile();
    const auto first = w.kept().current;
    const auto end = w.kept().generations.front().certificate->not_after;
    w.platform.users.begin()->second.user.expiration_date = end;  // shown by the platform, same expiry
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST((w.kept().generations.front().certificate->expiration_date == end));
    BOOST_TEST(w.store.events.back().event == "in_use");

    w.platform.users.begin()->second.user.expiration_date = w.clock.now() + std::chrono::hours(24 * 60);
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.kept().current == first);
    BOOST_TEST(
        (w.kept().generations.front().certificate->expiry() == w.clock.now() + std::chrono::hours(24 * 60)));
    BOOST_TEST(w.store.events.back().event == "expiration_changed");
    const auto told = w.store.events.size();
    w.reconcile();
    BOOST_TEST(w.store.events.size() == told);

    // expired ahead of time: a new certificate is issued
    w.platform.users.begin()->second.user.expiration_date = w.clock.now() - std::chrono::hours(1);
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(w.kept().current != first);
}

BOOST_AUTO_TEST_CASE(an_unreachable_platform_changes_nothing_and_is_said)
{
    small_world w;
    w.reconcile();
    w.platform.trouble = [](const std::string&, bool&) {
        return std::optional(failing(errc::not_connected));
    };
    const auto report = w.reconcile();
    BOOST_TEST(reconcile::exit_code(report) == 69);
    BOOST_TEST(w.kept().generations.size() == 1U);
}

BOOST_AUTO_TEST_CASE(half_of_the_users_gone_at_once_is_an_incident)
{
    small_world w;
    auto second = w.siem();
    second.name = "audit";
    second.output.directory = "/out/audit";
    w.desired.exposures.front().users.push_back(second);
    BOOST_TEST(w.reconcile().converged());
    w.platform.users.clear();
    BOOST_TEST(!w.reconcile().converged());
    BOOST_TEST(w.platform.requests.size() == 2U);
    BOOST_TEST(w.reconcile({.plan = {.accept_loss = true}}).converged());
    BOOST_TEST(w.platform.users.size() == 2U);
}

// A single successful GET does not end the backoff; a whole pass does.
BOOST_AUTO_TEST_CASE(a_back_off_is_over_after_a_whole_pass)
{
    small_world w;
    w.reconcile();
    w.clock.step(std::chrono::seconds(16));
    w.reconcile();
    w.platform.trouble = [](const std::string&, bool&) { return std::optional(failing(errc::unavailable)); };
    const reconcile::run_options soon{.timeout = std::chrono::minutes(1)};
    w.reconcile(soon);
    const auto& kept = w.store.saved.exposures.at("logs").failure;
    BOOST_TEST_REQUIRE(kept.has_value());
    const int failures = kept->count;
    // reads succeed, but creating fails
    w.siem().contact = "other@example.com";
    w.platform.trouble = [](const std::string& call, bool&) {
        return call == "create_user" ? std::optional(failing(errc::throttled)) : std::nullopt;
    };
    w.reconcile(soon);
    BOOST_TEST_REQUIRE(kept.has_value());
    BOOST_TEST(kept->count >= failures);
    BOOST_TEST(!kept->next_attempt.has_value());  // the step has a backoff of its own
    w.platform.trouble = {};
    BOOST_TEST(w.reconcile().converged());
    BOOST_TEST(!kept.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
