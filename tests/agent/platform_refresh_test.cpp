#include "agent/platform/refresh_rule.hpp"
#include "policy/dates.hpp"
#include "tests/support/oauth_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>

// The refresh protocol (failure-modes S2) as dialogues with the login server.

namespace {

using namespace std::chrono_literals;
using platform::login_state;
using platform::login_trouble;
using policy::errc;
using asked_by = platform::oauth_tokens::asked_by;

struct fixture : support::oauth_fixture {
    // Past the point where the access token of given_login() is refreshed ahead of its end.
    void wait_until_due() { clock.step(std::chrono::seconds(week) - 50min); }
    void wait_for_the_end() { clock.step(std::chrono::seconds(week) + 1s); }
};

BOOST_FIXTURE_TEST_SUITE(platform_refresh, fixture)

BOOST_AUTO_TEST_CASE(without_a_login_it_says_so)
{
    BOOST_TEST(current() == "failed: login_required");
    BOOST_CHECK(status().state == login_state::required);
    BOOST_CHECK(!run(tokens->refresh_due_at()).value());
    BOOST_CHECK(!run(tokens->refresh_if_due()));
    BOOST_TEST(http.requests.empty());
}

BOOST_AUTO_TEST_CASE(a_token_that_lives_is_used_as_it_is)
{
    given_login();
    BOOST_TEST(current() == "a1");
    make();
    BOOST_TEST(current() == "a1");
    BOOST_CHECK(status().state == login_state::ok);
    BOOST_TEST(status().sentence == "");
}

BOOST_AUTO_TEST_CASE(it_is_refreshed_ahead_of_its_end_as_the_reference_says)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body ==
                   "grant_type=refresh_token&refresh_token=r1&redirect_uri=http%3A%2F%2Flocalhost");
        BOOST_TEST(request.headers.at("Content-Type") == "application/x-www-form-urlencoded");
        BOOST_TEST(request.authorization == "Basic " + crypto::base64("exposure-automation:s3cret-value"));
        BOOST_TEST(!request.idempotent);
        BOOST_TEST(open_attempts("r1") == 1);  // the intent is on disk before it is sent
    });
    BOOST_TEST(current() == "a2");
    const auto record = store.record();
    BOOST_TEST(record.tokens.refresh_token.view() == "r2");
    BOOST_TEST(record.previous.value().refresh_token.view() == "r1");
    BOOST_TEST(record.find(platform::fingerprint_of(crypto::secret("r1")))->spent);
    BOOST_CHECK(status().last_refresh_at == clock.now());
    make();
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(the_pair_before_is_kept_until_the_new_one_has_worked)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(current() == "a2");
    BOOST_CHECK(store.record().previous);
    tokens->accepted(crypto::secret("a2"));
    BOOST_TEST(current() == "a2");
    BOOST_CHECK(!store.record().previous);
    BOOST_TEST(store.record().worked);
}

BOOST_AUTO_TEST_CASE(an_answer_without_a_refresh_token_keeps_the_old_one)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, R"({"access_token": "a2", "expires_in": "604799"})");
    BOOST_TEST(current() == "a2");
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");
    BOOST_TEST(store.record().find(platform::fingerprint_of(crypto::secret("r1"))) == nullptr);
    BOOST_CHECK(status().access_token_expires_at == clock.now() + policy::duration(week));
}

BOOST_AUTO_TEST_CASE(fifty_calls_share_one_refresh)
{
    given_login();
    clock.step(1h);
    io::async_event answered(context.get_executor());
    expect_post().answer(200, pair_body("a2", "r2")).after(answered);
    std::map<std::string, int> given;
    bool at_risk = true;
    const auto call = [&]() -> io::awaitable<void> {
        const auto token = co_await tokens->after_refusal(crypto::secret("a1"));
        ++given[token ? std::string(token->view()) : "failed"];
    };
    const auto all = [&]() -> io::awaitable<void> {
        co_await io::for_each_parallel(51, 51, [&](std::size_t index) -> io::awaitable<void> {
            if (index < 50) co_return co_await call();
            co_await clock.sleep_for(1s);  // until all fifty wait
            at_risk = (co_await tokens->status()).value().at_risk;
            answered.set();
        });
    };
    run(all());
    BOOST_TEST(given["a2"] == 50);
    BOOST_TEST(!at_risk);  // its outcome is still to come
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_refusal_of_an_older_token_asks_for_nothing)
{
    given_login();
    BOOST_TEST(after_refusal("a0") == "a1");
    BOOST_TEST(http.requests.empty());
}

BOOST_AUTO_TEST_CASE(never_sent_keeps_the_token_and_waits_longer_and_longer)
{
    given_login();
    wait_until_due();
    expect_post().fail(errc::not_connected, "login.example.com: connection refused");
    BOOST_TEST(current() == "a1");
    BOOST_TEST(open_attempts("r1") == 0);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_TEST(status().sentence.find("connection refused") != std::string::npos);

    clock.step(6s);
    expect_post().fail(errc::not_resolved);
    BOOST_TEST(current() == "a1");
    clock.step(6s);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 2u);
    clock.step(5s);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(never_sent_after_the_end_is_the_failure_of_the_call)
{
    given_login();
    wait_for_the_end();
    expect_post().fail(errc::untrusted, "unknown certificate authority");
    BOOST_TEST(current() == "failed: untrusted");
    BOOST_TEST(current() == "failed: untrusted");
    BOOST_TEST(http.requests.size() == 1u);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due(asked_by::person)));  // a person does not wait
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(being_told_to_wait_is_obeyed)
{
    given_login();
    wait_until_due();
    expect_post().answer(429, "", {{"retry-after", "300"}});
    BOOST_TEST(current() == "a1");
    BOOST_TEST(open_attempts("r1") == 0);
    clock.step(299s);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 1u);
    clock.step(1s);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(a_lost_answer_is_asked_for_once_more)
{
    given_login();
    wait_until_due();
    expect_post().fail(errc::no_answer);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(http.requests.at(0).body == http.requests.at(1).body);
    BOOST_CHECK(clock.slept == std::vector<std::chrono::milliseconds>{2s});
}

struct unknown_answer {
    const char* name;
    std::function<void(support::scripted_http::step&)> answer;
};

BOOST_AUTO_TEST_CASE(two_lost_answers_are_the_end_of_trying)
{
    const unknown_answer rows[] = {
        {"closed", [](auto& step) { step.fail(errc::no_answer); }},
        {"500", [](auto& step) { step.answer(500); }},
        {"503",
         [](auto& step) {
             step.answer(503, "", {{"retry-after", "1"}});
         }},
        {"redirect",
         [](auto& step) {
             step.answer(302, "", {{"location", "https://sso.example.com/"}});
         }},
        {"html", [](auto& step) { step.answer(200, "<html>"); }},
        {"no token", [](auto& step) { step.answer(200, R"({"expires_in": 5})"); }},
        {"too large", [](auto& step) { step.fail(errc::bad_answer); }},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.name)
        {
            store.text.reset();
            make();
            given_login();
            wait_until_due();
            row.answer(expect_post());
            row.answer(expect_post());
            for (int i = 0; i < 5; ++i)
                BOOST_TEST(current() == "a1");
            BOOST_TEST(http.requests.size() == 2u);
            BOOST_TEST(open_attempts("r1") == 2);
            BOOST_TEST(status().at_risk);
            BOOST_CHECK(status().state == login_state::ok);
            BOOST_TEST(status().sentence.find(policy::format_utc(*status().access_token_expires_at)) !=
                       std::string::npos);
            make();  // a restart is no new reason
            clock.step(10min);
            BOOST_CHECK(run(tokens->refresh_if_due()));
            BOOST_TEST(current() == "a1");
            BOOST_TEST(http.requests.size() == 2u);
        }
}

BOOST_AUTO_TEST_CASE(near_the_end_it_is_tried_once_more)
{
    given_login();
    wait_until_due();
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_TEST(current() == "a1");
    wait_for_the_end();
    expect_post().fail(errc::no_answer);
    for (int i = 0; i < 5; ++i)
        BOOST_TEST(current() == (i == 0 ? "failed: no_answer" : "failed: login_required"));
    BOOST_TEST(http.requests.size() == 3u);
    BOOST_CHECK(!run(tokens->refresh_due_at()).value());

    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due(asked_by::person)));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(!status().at_risk);
}

BOOST_AUTO_TEST_CASE(the_heartbeat_that_got_lost_waits_for_the_last_hours)
{
    given_login();
    clock.step(24h);
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_CHECK(!run(tokens->refresh_if_due()));
    const auto due = run(tokens->refresh_due_at()).value();
    BOOST_REQUIRE(due);
    const auto end = *status().access_token_expires_at;
    BOOST_CHECK(*due == end - 24h);
    clock.step(*due - clock.now());
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
}

// Killed between sending and saving: the record names one sending without an outcome.
BOOST_AUTO_TEST_CASE(after_a_kill_with_days_left_a_person_decides)
{
    given_login();
    auto record = store.record();
    record.at(platform::fingerprint_of(crypto::secret("r1"))).attempts = 1;
    store.set(record);
    make();
    clock.step(25h);
    BOOST_TEST(current() == "a1");
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(http.requests.empty());
    BOOST_TEST(status().at_risk);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due(asked_by::person)));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(after_a_kill_with_hours_left_it_is_tried_once)
{
    given_login();
    auto record = store.record();
    record.at(platform::fingerprint_of(crypto::secret("r1"))).attempts = 1;
    store.set(record);
    make();
    wait_until_due();
    expect_post().fail(errc::no_answer);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_TEST(open_attempts("r1") == 2);
}

BOOST_AUTO_TEST_CASE(invalid_grant_is_final)
{
    given_login();
    wait_until_due();
    expect_post().answer(400, R"({"error": "invalid_grant", "error_description": "Token r1 was revoked"})");
    BOOST_TEST(current() == "a1");  // certificates can still be served
    BOOST_CHECK(status().state == login_state::required);
    BOOST_TEST(status().sentence.find("invalid_grant: Token [hidden] was revoked") != std::string::npos);
    BOOST_TEST(status().sentence.find("exposure-agent login") != std::string::npos);
    make();
    BOOST_TEST(current() == "a1");
    BOOST_TEST(after_refusal("a1") == "failed: login_required");
    BOOST_CHECK(!run(tokens->refresh_if_due(asked_by::person)));
    wait_for_the_end();
    BOOST_TEST(current() == "failed: login_required");
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_refused_client_is_final_until_it_changes)
{
    given_login();
    wait_for_the_end();
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(open_attempts("r1") == 0);
    make();
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_CHECK(status().state == login_state::required);
    BOOST_TEST(status().sentence.find("client_secret") != std::string::npos);

    given_environment({{"CLIENT_SECRET", "another"}});
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(other_refusals_leave_the_token_alone)
{
    for (const auto& [status, body] : std::initializer_list<std::pair<unsigned, const char*>>{
             {400, R"({"error": "unauthorized_client"})"}, {400, "<html>"}, {404, ""}, {405, ""}})
        BOOST_TEST_CONTEXT(status << body)
        {
            store.text.reset();
            make();
            given_login();
            wait_for_the_end();
            expect_post().answer(status, body);
            BOOST_TEST(current() == "failed: client_refused");
            BOOST_TEST(current() == "failed: client_refused");
            BOOST_TEST(http.requests.size() == 1u);
            BOOST_TEST(open_attempts("r1") == 0);
        }
}

BOOST_AUTO_TEST_CASE(without_its_secret_nothing_is_sent)
{
    given_login();
    wait_for_the_end();
    given_environment({});
    BOOST_TEST(current() == "failed: token_source");
    BOOST_TEST(http.requests.empty());
}

BOOST_AUTO_TEST_CASE(a_full_disk_stops_it_before_anything_is_sent)
{
    given_login();
    wait_until_due();
    store.refusals = 2;
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.empty());
    clock.step(6s);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(without_room_for_the_answer_nothing_is_sent)
{
    given_login();
    wait_until_due();
    store.room = false;
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.empty());
    BOOST_TEST(open_attempts("r1") == 0);
    store.room = true;
    clock.step(6s);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(an_answer_that_cannot_be_saved_is_held_and_saved_later)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2")).then([&](const auto&) { store.refusals = 100; });
    BOOST_TEST(current() == "a2");
    BOOST_TEST(status().unsaved);
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");
    BOOST_CHECK(!run(tokens->flush()));
    BOOST_TEST(current() == "a2");

    store.refusals = 0;
    clock.step(6s);
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(!status().unsaved);
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r2");
    BOOST_CHECK(run(tokens->flush()));
}

BOOST_AUTO_TEST_CASE(tokens_from_the_second_place_are_saved_where_they_belong)
{
    given_login();
    store.in_place = false;
    make();
    BOOST_TEST(status().unsaved);
    const auto saves = store.saves;
    BOOST_TEST(current() == "a1");
    BOOST_TEST(store.saves == saves + 1);
    BOOST_TEST(!status().unsaved);
}

BOOST_AUTO_TEST_CASE(a_new_token_that_is_refused_at_once_waits)
{
    given_login();
    tokens->accepted(crypto::secret("a1"));
    clock.step(1h);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(after_refusal("a1") == "a2");
    for (int i = 0; i < 5; ++i)
        BOOST_TEST(after_refusal("a2") == "failed: unauthorized");
    BOOST_TEST(current() == "failed: unauthorized");
    BOOST_TEST(http.requests.size() == 1u);

    clock.step(31s);
    expect_post().answer(200, pair_body("a3", "r3"));
    BOOST_TEST(current() == "a3");
    BOOST_TEST(after_refusal("a3") == "failed: unauthorized");
    clock.step(31s);
    BOOST_TEST(current() == "failed: login_required");
    make();
    BOOST_TEST(after_refusal("a3") == "failed: login_required");
    BOOST_TEST(http.requests.size() == 2u);
    BOOST_CHECK(status().state == login_state::required);
}

BOOST_AUTO_TEST_CASE(a_new_token_that_the_platform_does_not_know_yet)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(after_refusal("a2") == "a1");  // which nobody has refused so far
    BOOST_TEST(after_refusal("a1") == "failed: unauthorized");
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(one_host_that_refuses_what_the_other_accepts_makes_no_loop)
{
    given_login();
    clock.step(1h);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(after_refusal("a1") == "a2");
    for (int i = 0; i < 5; ++i) {
        BOOST_TEST(after_refusal("a2") == "failed: unauthorized");
        tokens->accepted(crypto::secret("a2"));
        BOOST_TEST(current() == "a2");
    }
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(another_client_or_address_never_sees_the_tokens)
{
    given_login();
    wait_for_the_end();
    settings.auth_url = "https://elsewhere.example.com";
    tokens->configure(settings);
    BOOST_TEST(current() == "failed: login_required");
    BOOST_TEST(http.requests.empty());
    settings.auth_url = "https://login.example.com/SAAS/t/orion-123";
    tokens->configure(settings);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(the_heartbeat_refreshes_what_nobody_needs)
{
    given_login();
    const auto due = run(tokens->refresh_due_at()).value();
    BOOST_REQUIRE(due);
    BOOST_TEST((*due > clock.now() + 24h * 9 / 10 - 1s));
    BOOST_TEST((*due <= clock.now() + 24h));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(http.requests.empty());
    clock.step(*due - clock.now());
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(odd_lifetimes_make_no_loop)
{
    for (const long long life : {0LL, -1LL, 1LL, 20LL})
        BOOST_TEST_CONTEXT(life)
        {
            store.text.reset();
            make();
            given_login(life);
            BOOST_TEST(current() == "a1");
            BOOST_TEST(http.requests.empty());
        }
}

BOOST_AUTO_TEST_CASE(a_damaged_record_is_not_taken_for_no_login)
{
    for (const char* text : {"", "{", "[]", R"({"format": 1})", R"({"format": 2, "tokens": {}})"}) {
        store.text = text;
        make();
        BOOST_CHECK(!run(tokens->current()));
        BOOST_CHECK(!run(tokens->status()));
        BOOST_TEST(store.text.value() == text);
    }
}

BOOST_AUTO_TEST_CASE(a_stop_between_two_tries_leaves_a_record)
{
    given_login();
    wait_until_due();
    expect_post().fail(errc::no_answer).then([&](const auto&) { clock.stop(); });
    BOOST_TEST(current() == "a1");
    BOOST_TEST(open_attempts("r1") == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(platform_refresh_rule)

BOOST_AUTO_TEST_CASE(ahead_of_the_end_by_a_tenth_within_bounds)
{
    const policy::instant start{policy::duration(1'800'000'000)};
    const auto lead = [&](policy::duration life) {
        platform::token_record record;
        record.tokens = {.access_token = crypto::secret("a"),
                         .refresh_token = crypto::secret("r"),
                         .obtained_at = start,
                         .expires_at = start + life};
        return start + life - platform::refresh_due(record, 24h * 365).value();
    };
    BOOST_TEST((lead(10min) == 60s));
    BOOST_TEST((lead(5h) == 30min));
    BOOST_TEST((lead(24h * 7) == 1h));
    BOOST_TEST((lead(100s) == 50s));
    BOOST_TEST((lead(40s) == 10s));  // never within half a minute of the last one
}

BOOST_AUTO_TEST_CASE(the_heartbeat_spreads_and_stays)
{
    BOOST_TEST((platform::heartbeat(24h, "web-01") == platform::heartbeat(24h, "web-01")));
    BOOST_TEST((platform::heartbeat(24h, "web-01") != platform::heartbeat(24h, "web-02")));
    for (const char* owner : {"", "a", "b", "web-01"}) {
        BOOST_TEST((platform::heartbeat(24h, owner) <= 24h));
        BOOST_TEST((platform::heartbeat(24h, owner) >= 24h * 9 / 10));
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
