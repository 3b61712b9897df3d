#include "policy/dates.hpp"
#include "tests/support/oauth_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>

// The refresh protocol (failure-modes S2) against a scripted login server.

namespace {

using namespace std::chrono_literals;
using platform::login_state;
using platform::login_trouble;
using policy::errc;
using asked_by = platform::oauth_tokens::asked_by;

struct fixture : support::oauth_fixture {
    // Past the time at which the access token of given_login() is refreshed, ahead of its expiry.
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
    settings.scope = "openid";  // at the login page only
    make();
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body ==
                   "grant_type=refresh_token&refresh_token=r1&redirect_uri=http%3A%2F%2Flocalhost");
        BOOST_TEST(request.headers.at("Content-Type") == "application/x-www-form-urlencoded");
        BOOST_TEST(request.authorization == "Basic " + crypto::base64("exposure-automation:s3cret-value"));
        BOOST_TEST(!request.idempotent);
        BOOST_CHECK(request.answer_limit == 2min);
        BOOST_TEST(open_attempts("r1") == 1);  // the intent is on disk before the request is sent
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
            co_await clock.sleep_for(1s);  // until all fifty are waiting
            at_risk = (co_await tokens->status()).value().attention;
            answered.set();
        });
    };
    run(all());
    BOOST_TEST(given["a2"] == 50);
    BOOST_TEST(!at_risk);  // the outcome is still open
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
    BOOST_CHECK(run(tokens->refresh_if_due(asked_by::person)));  // a manual refresh does not wait
    BOOST_TEST(current() == "a2");
}

// A manual refresh skips the backoff, even if it joins a scheduled refresh that does not.
BOOST_AUTO_TEST_CASE(a_person_who_joins_the_schedules_refresh_does_not_wait)
{
    given_login();
    wait_for_the_end();
    expect_post().fail(errc::untrusted, "unknown certificate authority");
    BOOST_TEST(current() == "failed: untrusted");
    expect_post().answer(200, pair_body("a2", "r2"));
    const auto both = [&]() -> io::awaitable<void> {
        co_await io::for_each_parallel(2, 2, [&](std::size_t i) -> io::awaitable<void> {
            const auto who = i == 0 ? asked_by::schedule : asked_by::person;
            const auto done = co_await tokens->refresh_if_due(who);
            BOOST_TEST(done.has_value() == (who == asked_by::person));
        });
    };
    run(both());
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

BOOST_AUTO_TEST_CASE(lost_answers_are_spread_over_the_remaining_life)
{
    const unknown_answer rows[] = {
        {"closed", [](auto& step) { step.fail(errc::no_answer); }},
        {"500", [](auto& step) { step.answer(500); }},
        {"502", [](auto& step) { step.answer(502, "<html><title>502 Bad Gateway</title>"); }},
        {"504", [](auto& step) { step.answer(504); }},
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
            BOOST_TEST(status().attention);
            BOOST_CHECK(status().failing_since);
            BOOST_CHECK(status().state == login_state::ok);
            BOOST_TEST(status().sentence.find(policy::format_utc(*status().access_token_expires_at)) !=
                       std::string::npos);
            make();  // a restart does not allow another attempt
            clock.step(9min);
            BOOST_CHECK(run(tokens->refresh_if_due()));
            BOOST_TEST(current() == "a1");
            BOOST_TEST(http.requests.size() == 2u);
            clock.step(2min);
            expect_post().answer(200, pair_body("a2", "r2"));
            BOOST_CHECK(run(tokens->refresh_if_due()));
            BOOST_TEST(current() == "a2");
            BOOST_TEST(!status().attention);
            BOOST_TEST(status().sentence == "");
        }
}

// Expiry and attempts are counted by the same clock, which never goes backwards.
BOOST_AUTO_TEST_CASE(a_clock_set_back_does_not_shorten_the_pauses_between_lost_attempts)
{
    given_login();
    clock.step(40min);
    clock.step(-40min);
    wait_until_due();
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_TEST(current() == "a1");
    clock.step(6s);  // its back-off is over
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 2u);
    clock.step(11min);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
}

// An error from a proxy or an overloaded server was not processed: it says nothing about the token.
BOOST_AUTO_TEST_CASE(error_pages_and_refused_connections_are_no_verdict)
{
    const unknown_answer rows[] = {
        {"refused", [](auto& step) { step.fail(errc::not_connected); }},
        {"dns", [](auto& step) { step.fail(errc::not_resolved); }},
        {"tls", [](auto& step) { step.fail(errc::untrusted); }},
        {"503", [](auto& step) { step.answer(503, "<html>"); }},
        {"400 html", [](auto& step) { step.answer(400, "<html>"); }},
        {"401 html", [](auto& step) { step.answer(401, "<html>"); }},
        {"403", [](auto& step) { step.answer(403, "Forbidden"); }},
        {"404", [](auto& step) { step.answer(404); }},
        {"405", [](auto& step) { step.answer(405, "<html>"); }},
        {"413", [](auto& step) { step.answer(413, "<html>"); }},
        {"401 of a gateway",
         [](auto& step) { step.answer(401, R"({"error": "Unauthorized", "status": 401})"); }},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.name)
        {
            store.text.reset();
            make();
            given_login();
            wait_for_the_end();
            for (int i = 0; i < 12; ++i) {
                row.answer(expect_post());
                BOOST_TEST(current().starts_with("failed: "));
                BOOST_TEST(open_attempts("r1") == 0);
                BOOST_CHECK(status().state == login_state::ok);
                BOOST_TEST(status().attention);
                clock.step(10min);
            }
            BOOST_TEST(http.requests.size() == 12u);
            expect_post().answer(200, pair_body("a2", "r2"));
            BOOST_TEST(current() == "a2");
            BOOST_CHECK(!status().failing_since);
        }
}

// Retries continue for any length of outage: once the access token has expired, there is nothing left to
// protect.
BOOST_AUTO_TEST_CASE(after_the_end_it_is_tried_for_as_long_as_it_takes)
{
    given_login();
    wait_until_due();
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_TEST(current() == "a1");
    wait_for_the_end();
    int sent = 2;
    for (int hour = 0; hour < 8 * 6; ++hour) {
        expect_post().answer(502, "<html><title>502 Bad Gateway</title>");
        BOOST_TEST(current() == "failed: unavailable");
        BOOST_TEST(current() == "failed: unavailable");
        BOOST_TEST(http.requests.size() == static_cast<std::size_t>(++sent));
        const auto due = run(tokens->refresh_due_at()).value();
        BOOST_REQUIRE(due);
        BOOST_TEST((*due - clock.now() <= 10min));
        clock.step(10min);
    }
    BOOST_TEST(status().sentence.find("Bad Gateway") != std::string::npos);
    BOOST_TEST(status().sentence.find("expired at") != std::string::npos);
    BOOST_CHECK(status().state == login_state::ok);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(the_heartbeat_that_got_lost_is_spread)
{
    given_login();
    clock.step(24h);
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_CHECK(!run(tokens->refresh_if_due()));
    const auto due = run(tokens->refresh_due_at()).value();
    BOOST_REQUIRE(due);
    BOOST_CHECK((*due > clock.now() + 17h));
    BOOST_CHECK((*due < clock.now() + 19h));  // an eighth of six days
    clock.step(*due - clock.now());
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
}

// Killed between sending and saving: the record shows one attempt without an outcome.
BOOST_AUTO_TEST_CASE(after_a_kill_it_is_sent_once_more)
{
    given_login();
    auto record = store.record();
    auto& mark = record.at(platform::fingerprint_of(crypto::secret("r1")));
    mark.attempts = 1;
    mark.last = clock.now() + 25h;
    store.set(record);
    make();
    clock.step(25h + 3s);
    expect_post().fail(errc::no_answer);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_TEST(open_attempts("r1") == 2);
    BOOST_TEST(status().attention);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due(asked_by::person)));  // a manual refresh does not wait
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(invalid_grant_is_final)
{
    given_login();
    wait_until_due();
    expect_post().answer(400, R"({"error": "invalid_grant", "error_description": "Token r1 was revoked"})");
    BOOST_TEST(current() == "a1");  // certificates can still be served
    BOOST_CHECK(status().state == login_state::required);
    BOOST_TEST(status().sentence.find("invalid_grant: Token [hidden] was revoked") != std::string::npos);
    BOOST_TEST(status().sentence.find("used elsewhere") != std::string::npos);
    BOOST_TEST(status().sentence.find("exposure-agent login") != std::string::npos);
    make();
    BOOST_TEST(current() == "a1");
    BOOST_TEST(after_refusal("a1") == "failed: login_required");
    BOOST_CHECK(!run(tokens->refresh_if_due(asked_by::person)));
    wait_for_the_end();
    BOOST_TEST(current() == "failed: login_required");
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_refused_client_is_tried_hourly_and_when_it_changes)
{
    given_login();
    wait_for_the_end();
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(open_attempts("r1") == 0);
    make();
    BOOST_TEST(current() == "failed: client_refused");
    clock.step(59min);
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_CHECK(status().state == login_state::required);
    BOOST_TEST(status().sentence.find("client_secret") != std::string::npos);
    BOOST_TEST(status().sentence.find("access token is refused") == std::string::npos);
    BOOST_TEST(status().sentence.find("exposure-agent login") == std::string::npos);
    BOOST_TEST(
        (run(tokens->refresh_due_at()).value().value() <= clock.now() + 30s));  // the secret is checked again

    clock.step(2min);
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(http.requests.size() == 2u);

    given_environment({{"CLIENT_SECRET", "another"}});
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
    BOOST_CHECK(status().state == login_state::ok);
}

BOOST_AUTO_TEST_CASE(a_wrong_secret_by_its_other_name)  // worded as by Keycloak 25
{
    given_login();
    wait_for_the_end();
    expect_post().answer(401, R"({"error": "unauthorized_client",)"
                              R"( "error_description": "Invalid client or Invalid client credentials"})");
    BOOST_TEST(current() == "failed: client_refused");
    BOOST_TEST(status().sentence.find("check identity.client_id and identity.client_secret") !=
               std::string::npos);
}

// As in the daemon: act when something is due, sleep until then.
BOOST_AUTO_TEST_CASE(a_changed_secret_is_noticed_though_nothing_else_asks)
{
    given_login();
    wait_for_the_end();
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_TEST(current() == "failed: client_refused");
    make();
    const auto due = [&] { return run(tokens->refresh_due_at()).value().value() <= clock.now(); };
    BOOST_TEST(due());  // the secret may have changed while nothing was running
    BOOST_TEST(!run(tokens->refresh_if_due()));
    BOOST_TEST(!due());
    clock.step(31s);
    BOOST_TEST(due());
    given_environment({{"CLIENT_SECRET", "another"}});
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->refresh_if_due()));
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(other_verdicts_leave_the_token_alone)
{
    for (const char* body : {R"({"error": "unauthorized_client"})", R"({"error": "invalid_request"})"})
        BOOST_TEST_CONTEXT(body)
        {
            store.text.reset();
            make();
            given_login();
            wait_for_the_end();
            expect_post().answer(400, body);
            BOOST_TEST(current() == "failed: client_refused");
            BOOST_TEST(current() == "failed: client_refused");
            BOOST_TEST(http.requests.size() == 1u);
            BOOST_TEST(open_attempts("r1") == 0);
        }
}

// What a person is told: whose error it is, and at most one command.
BOOST_AUTO_TEST_CASE(every_answer_has_its_words)
{
    const struct {
        unsigned status;
        const char* body;
        const char* says;
        const char* omits;
    } rows[] = {
        {401, R"({"error": "invalid_client"})",
         "answered 401 (Unauthorized): invalid_client; the client id or secret is wrong", "access token was"},
        {400, R"({"error": "invalid_client"})", "check identity.client_id and identity.client_secret",
         "exposure-agent login"},
        {400, R"({"error": "unauthorized_client"})", "the operator of the platform must permit this",
         "exposure-agent login"},
        {400, R"({"error": "invalid_request"})", "check identity.auth_url and redirect_url",
         "exposure-agent login"},
        {400, R"({"error": "invalid_grant"})",
         "expired, revoked or was used elsewhere. Run: exposure-agent login", "identity."},
        {401, "<html><title>Sign in</title>", "answered 401 (Unauthorized): Sign in", "client id"},
        {403, "Forbidden", "answered 403 (Forbidden)", "role"},
        {413, "<html><title>413 Request Entity Too Large</title>", ": 413 Request Entity Too Large", "login"},
        {502, "<HTML><HEAD><TITLE>Origin down</TITLE>", "answered 502 (Bad Gateway): Origin down",
         "no answer"},
        {504, "", "answered 504 (Gateway Timeout)", "no response"},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.status << " " << row.body)
        {
            store.text.reset();
            make();
            given_login();
            wait_until_due();
            expect_post().answer(row.status, row.body);
            if (row.status == 502 || row.status == 504) expect_post().answer(row.status, row.body);
            BOOST_TEST(current() == "a1");
            const auto said = status().sentence;
            BOOST_TEST(said.find(row.says) != std::string::npos, said);
            BOOST_TEST(said.find(row.omits, sizeof "refresh the access token: login.") == std::string::npos,
                       said);
            BOOST_TEST(said.find("exposure-agent ") == said.rfind("exposure-agent "), said);
        }
}

// RFC 6749 section 2.3.1 requires both parts to be form-encoded; the reference shows them unencoded.
BOOST_AUTO_TEST_CASE(a_client_with_plus_or_percent_is_tried_both_ways)
{
    const struct {
        const char* id;
        const char* secret;
        const char* plain;
        const char* encoded;
    } rows[] = {
        {"automation", "a+b", "automation:a+b", "automation:a%2Bb"},
        {"automation", "a%c", "automation:a%c", "automation:a%25c"},
        {"auto+mation", "a", "auto+mation:a", "auto%2Bmation:a"},
    };
    const auto expect_as = [&](const char* pair) -> support::scripted_http::step& {
        return expect_post().then([expected = "Basic " + crypto::base64(pair)](const auto& request) {
            BOOST_TEST(request.authorization == expected);
        });
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.plain)
        {
            settings.client_id = row.id;
            given_environment({{"CLIENT_SECRET", row.secret}});
            store.text.reset();
            make();
            given_login();
            wait_until_due();
            expect_as(row.plain).answer(401, R"({"error": "invalid_client"})");
            expect_as(row.encoded).answer(200, pair_body("a2", "r2"));
            BOOST_TEST(current() == "a2");
            make();  // the variant that worked is remembered
            wait_until_due();
            expect_as(row.encoded).answer(200, pair_body("a3", "r3"));
            BOOST_TEST(current() == "a3");
            wait_until_due();
            expect_as(row.encoded).answer(400, R"({"error": "invalid_request"})");
            expect_as(row.plain).answer(401, R"({"error": "invalid_client"})");
            BOOST_TEST(current() == "a3");
            BOOST_CHECK(status().state == login_state::required);

            given_environment({{"CLIENT_SECRET", "another+one"}});  // about which nothing is known
            make();
            expect_as((row.id + std::string(":another+one")).c_str()).answer(200, pair_body("a4", "r4"));
            BOOST_CHECK(run(tokens->refresh_if_due()));
            BOOST_TEST(current() == "a4");
        }
}

BOOST_AUTO_TEST_CASE(a_session_that_refreshes_do_not_extend)
{
    const auto body = [](const char* access, const char* refresh, long long life) {
        return R"({"access_token": ")" + std::string(access) + R"(", "expires_in": 300, "refresh_token": ")" +
               refresh + R"(", "refresh_expires_in": )" + std::to_string(life) + "}";
    };
    expect_post().answer(200, body("a1", "r1", 1800));
    BOOST_REQUIRE(run(tokens->login_with_code(crypto::secret("code-0"), false)));
    clock.step(4min + 30s);
    expect_post().answer(200, body("a2", "r2", 1800));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(status().sentence == "");
    clock.step(4min + 30s);
    const auto end = clock.now() + 1530s;
    expect_post().answer(200, body("a3", "r3", 1530));
    BOOST_TEST(current() == "a3");
    BOOST_TEST(status().sentence.find(policy::format_utc(end)) != std::string::npos);
    BOOST_TEST(status().sentence.find("exposure-agent login") != std::string::npos);
    BOOST_TEST(status().attention);
}

BOOST_AUTO_TEST_CASE(a_refresh_token_that_idles_out_is_refreshed_before)
{
    expect_post().answer(
        200,
        R"({"access_token": "a1", "expires_in": 604799, "refresh_token": "r1", "refresh_expires_in": 1800})");
    BOOST_REQUIRE(run(tokens->login_with_code(crypto::secret("code-0"), false)));
    BOOST_CHECK(run(tokens->refresh_due_at()).value() == clock.now() + 20min);
}

// The file is edited during the exchange: the old token goes to the old address, and nothing else is sent.
BOOST_AUTO_TEST_CASE(an_edit_during_a_refresh_does_not_redirect_it)
{
    given_login();
    wait_until_due();
    io::async_event answered(context.get_executor());
    const auto old_address = settings.auth_url;
    expect_post().answer(200, pair_body("a2", "r2")).after(answered).then([&](const auto&) {
        settings.auth_url = "https://elsewhere.example.com";
        tokens->configure(settings);
        answered.set();
    });
    (void)current();
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_TEST(store.record().granted_to == "exposure-automation at " + old_address);
    BOOST_CHECK(status().state == login_state::required);
    wait_for_the_end();
    BOOST_TEST(current() == "failed: login_required");
    BOOST_TEST(http.requests.size() == 1u);
}

// Same for an edit before the secret has been read.
BOOST_AUTO_TEST_CASE(an_edit_before_the_sending_does_not_redirect_it)
{
    given_login();
    wait_until_due();
    store.on_make_room = [&] {
        settings.auth_url = "https://elsewhere.example.com";
        tokens->configure(settings);
    };
    expect_post().answer(200, pair_body("a2", "r2"));
    (void)current();
    BOOST_TEST(http.unexpected.empty());
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r2");
}

BOOST_AUTO_TEST_CASE(a_copied_state_directory_presents_nothing)
{
    given_login();
    store.copied = true;
    make();
    BOOST_TEST(current() == "a1");  // a copy may still read
    BOOST_TEST(after_refusal("a1") == "failed: login_required");
    wait_for_the_end();
    for (const auto who : {asked_by::schedule, asked_by::person})
        BOOST_CHECK(!run(tokens->refresh_if_due(who)));
    BOOST_CHECK(!run(tokens->refresh_due_at()).value());
    BOOST_TEST(status().attention);
    BOOST_TEST(status().sentence.find("takeover") != std::string::npos);
    BOOST_TEST(http.requests.empty());
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(run(tokens->login_with_code(crypto::secret("code-1"), false)));  // a grant of its own
    BOOST_TEST(current() == "a2");
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_stops_nothing)
{
    given_login(3600);
    clock.step(-48h);
    clock.step(1h + 1s);
    expect_post().fail(errc::not_connected);
    BOOST_TEST(current() == "failed: not_connected");
    clock.step(-48h);
    clock.step(6s);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
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
    BOOST_TEST(clock.slept.empty());
    expect_post().answer(200, pair_body("a3", "r3"));
    BOOST_TEST(after_refusal("a2") == "a3");
    BOOST_CHECK(clock.slept == std::vector<std::chrono::milliseconds>{30s});
    BOOST_TEST(after_refusal("a3") == "failed: login_required");
    make();
    BOOST_TEST(after_refusal("a3") == "failed: login_required");
    BOOST_TEST(http.requests.size() == 2u);
    BOOST_CHECK(status().state == login_state::required);
}

BOOST_AUTO_TEST_CASE(a_new_token_that_has_worked_and_ends_early)
{
    given_login();
    clock.step(1h);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(after_refusal("a1") == "a2");
    tokens->accepted(crypto::secret("a2"));
    clock.step(10s);
    expect_post().answer(200, pair_body("a3", "r3"));
    BOOST_TEST(after_refusal("a2") == "a3");  // the run goes on
    BOOST_CHECK(clock.slept == std::vector<std::chrono::milliseconds>{20s});
}

BOOST_AUTO_TEST_CASE(a_new_token_that_the_platform_does_not_know_yet)
{
    given_login();
    wait_until_due();
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(current() == "a2");
    BOOST_TEST(after_refusal("a2") == "a1");  // a1 has not been refused so far
    BOOST_TEST(current() == "a1");
    BOOST_TEST(http.requests.size() == 1u);
    expect_post().answer(200, pair_body("a3", "r3"));
    BOOST_TEST(after_refusal("a1") == "a3");
    BOOST_CHECK(clock.slept == std::vector<std::chrono::milliseconds>{30s});
}

BOOST_AUTO_TEST_CASE(one_host_that_refuses_what_the_other_accepts_makes_no_loop)
{
    given_login();
    clock.step(1h);
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_TEST(after_refusal("a1") == "a2");
    std::string given;
    const auto both = [&]() -> io::awaitable<void> {
        co_await io::for_each_parallel(2, 2, [&](std::size_t index) -> io::awaitable<void> {
            if (index == 1) {
                co_await clock.sleep_for(1s);
                tokens->accepted(crypto::secret("a2"));
                co_return;
            }
            const auto token = co_await tokens->after_refusal(crypto::secret("a2"));
            given = token ? std::string(token->view()) : std::string("failed");
        });
    };
    run(both());
    BOOST_TEST(given == "a2");
    for (int i = 0; i < 5; ++i) {
        clock.step(-1s);
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

// Upcoming refreshes and logins by the same rule: "refresh 3600, login 7200" in seconds from now.
BOOST_AUTO_TEST_CASE(forecast_of_refreshes_and_logins)
{
    const auto at = clock.now();
    const auto told = [&](const platform::token_record& record, policy::duration time) {
        std::string text;
        for (const auto& e : platform::forecast(record, 24h, at, at + time))
            text += (text.empty() ? "" : ", ") + std::string(policy::word_of(e.action)) + " " +
                    std::to_string((e.at - at).count());
        return text;
    };
    const auto login = [&](const char* refresh_token) {
        platform::token_record record;
        record.tokens.access_token = crypto::secret("a1");
        record.tokens.refresh_token = crypto::secret(refresh_token);
        record.tokens.obtained_at = at;
        return record;
    };
    auto record = login("r1");
    BOOST_TEST(told(record, 49h) == "refresh 86400, refresh 172800");  // the heartbeat
    record.tokens.expires_at = at + 10h;
    BOOST_TEST(told(record, 19h) == "refresh 32400, refresh 64800");  // an hour before each expiry
    record.tokens.refresh_expires_at = at + 3h;
    BOOST_TEST(told(record, 5h) == "refresh 7200, refresh 14400");  // two thirds of the refresh token's life
    record.session_ends_at = at + 10h + 1s;
    BOOST_TEST(told(record, 11h) == "refresh 32400, login 36001");
    record.presented.push_back({.fingerprint = platform::fingerprint_of(crypto::secret("r1")),
                                .attempts = 2,
                                .spent = false,
                                .last = at});
    BOOST_TEST(told(record, 2h) == "refresh 4500");  // no answer: spread over the remaining time

    auto alone = login("");
    BOOST_TEST(told(alone, 24h * 365) == "");  // its expiry is unknown
    alone.tokens.expires_at = at + 8h;
    BOOST_TEST(told(alone, 17h) == "login 28800, login 57600");

    const auto logged_out = run(tokens->forecast(at + 24h)).value();
    BOOST_TEST(logged_out.size() == 1U);
    BOOST_CHECK(logged_out.front().action == policy::forecast_action::login);
    given_login();
    const auto logged_in = run(tokens->forecast(at + 24h * 365)).value();
    BOOST_CHECK(logged_in.front().at == run(tokens->refresh_due_at()).value().value());
    BOOST_TEST(logged_in.size() > 365U);
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
    BOOST_TEST((lead(40s) == 10s));  // at least 30 s after the previous one
}

BOOST_AUTO_TEST_CASE(readers_have_the_next_token_before_the_last_one_ends)
{
    const policy::instant start{policy::duration(1'800'000'000)};
    const auto lead = [&](policy::duration life) {
        platform::token_record record;
        record.tokens = {.access_token = crypto::secret("a"),
                         .refresh_token = crypto::secret("r"),
                         .obtained_at = start,
                         .expires_at = start + life};
        return start + life - platform::refresh_due(record, 24h * 365, true).value();
    };
    BOOST_TEST((lead(20s) == 10s));
    BOOST_TEST((lead(40s) == 20s));
    BOOST_TEST((lead(10min) == 200s));
    BOOST_TEST((lead(24h * 7) == 1h));
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
