#include "tests/support/oauth_fixture.hpp"

#include <boost/test/unit_test.hpp>

// Logins (failure-modes S1) against a scripted login server.

namespace {

using namespace std::chrono_literals;
using platform::login_state;
using policy::errc;
using seed = platform::oauth_tokens::seed;

struct fixture : support::oauth_fixture {
    policy::result<void> login(const char* code, bool force = false)
    {
        return run(tokens->login_with_code(crypto::secret(code), force));
    }

    policy::result<seed> import(const char* token, bool force = false)
    {
        return run(tokens->login_with_refresh_token(crypto::secret(token), force));
    }

    bool spent(const char* text) const
    {
        const auto record = store.record();
        const auto* found = record.find(platform::fingerprint_of(crypto::secret(text)));
        return found != nullptr && found->spent;
    }

    static std::string pair_of(const std::string& subject, const std::string& refresh)
    {
        return pair_body(support::jwt(R"({"sub": ")" + subject + R"("})"), refresh);
    }
};

BOOST_FIXTURE_TEST_SUITE(platform_login, fixture)

BOOST_AUTO_TEST_CASE(a_code_becomes_tokens_as_the_reference_says)
{
    settings.scope = "openid";  // at the login page only
    make();
    expect_post().answer(200, pair_body("a1", "r1")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body ==
                   "grant_type=authorization_code&code=c%2F1&redirect_uri=http%3A%2F%2Flocalhost");
        BOOST_TEST(request.authorization == "Basic " + crypto::base64("exposure-automation:s3cret-value"));
        BOOST_CHECK(request.answer_limit == 2min);
        BOOST_TEST(spent("c/1"));  // recorded on disk before the request is sent
    });
    BOOST_CHECK(login("c/1"));
    BOOST_TEST(current() == "a1");
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");
    BOOST_CHECK(status().state == login_state::ok);
    BOOST_CHECK(status().access_token_expires_at == clock.now() + policy::duration(week));
    BOOST_CHECK(!status().last_refresh_at);
    BOOST_TEST(store.text->find("c/1") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_code_is_never_sent_twice)
{
    expect_post().fail(errc::no_answer, "login.example.com closed the connection");
    const auto lost = login("c1");
    BOOST_CHECK(lost.error().code == errc::no_answer);
    BOOST_TEST(lost.error().context.find("exposure-agent login") != std::string::npos);
    make();
    BOOST_CHECK(login("c1").error().code == errc::refused);
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_CHECK(status().state == login_state::required);
}

BOOST_AUTO_TEST_CASE(a_code_that_was_not_sent_can_be_used)
{
    expect_post().fail(errc::not_connected);
    BOOST_CHECK(login("c1").error().code == errc::not_connected);
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_CHECK(login("c1").error().code == errc::client_refused);
    store.refusals = 1;
    BOOST_CHECK(login("c1").error().code == errc::disk_full);
    expect_post().answer(200, pair_body("a1", "r1"));
    BOOST_CHECK(login("c1"));
}

BOOST_AUTO_TEST_CASE(a_used_or_expired_code_leaves_the_tokens_alone)
{
    given_login();
    expect_post().answer(400, R"({"error": "invalid_grant", "error_description": "code c1 expired"})");
    const auto refused = login("c1").error();
    BOOST_CHECK(refused.code == errc::refused);
    BOOST_TEST(refused.context.find("expired or was already used") != std::string::npos);
    BOOST_TEST(refused.context.find("code [hidden] expired") != std::string::npos);
    BOOST_TEST(current() == "a1");
}

BOOST_AUTO_TEST_CASE(another_person_needs_force)
{
    expect_post().answer(200, pair_of("robot", "r1"));
    BOOST_CHECK(login("c1"));
    expect_post().answer(200, pair_of("someone", "r2"));
    const auto refused = login("c2").error();
    BOOST_CHECK(refused.code == errc::refused);
    BOOST_TEST(refused.context.find("someone") != std::string::npos);
    BOOST_TEST(refused.context.find("robot") != std::string::npos);
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");

    expect_post().answer(200, pair_of("robot", "r3"));
    BOOST_CHECK(login("c3"));
    expect_post().answer(200, pair_of("someone", "r4"));
    BOOST_CHECK(login("c4", true));
    BOOST_TEST(status().subject == "someone");
    expect_post().answer(200, pair_body("opaque", "r5"));  // does not identify its user
    BOOST_CHECK(login("c5"));
    BOOST_TEST(status().subject == "");
}

BOOST_AUTO_TEST_CASE(without_a_refresh_token_it_works_until_the_end)
{
    expect_post().answer(200, R"({"access_token": "a1", "expires_in": 3600})");
    BOOST_CHECK(login("c1"));
    BOOST_TEST(current() == "a1");
    BOOST_CHECK(status().state == login_state::ok);
    BOOST_TEST(status().sentence.find("no refresh token") != std::string::npos);
    BOOST_CHECK(!run(tokens->refresh_due_at()).value());
    clock.step(1h);
    BOOST_TEST(current() == "failed: login_required");
    BOOST_CHECK(status().state == login_state::required);
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_login_repairs_every_trouble)
{
    given_login();
    clock.step(std::chrono::seconds(week) + 1s);
    expect_post().answer(400, R"({"error": "invalid_grant"})");
    BOOST_TEST(current() == "failed: login_required");
    expect_post().answer(200, pair_body("a2", "r2"));
    BOOST_CHECK(login("c2"));
    BOOST_TEST(current() == "a2");
    BOOST_CHECK(status().state == login_state::ok);
    BOOST_TEST(status().sentence == "");
}

BOOST_AUTO_TEST_CASE(a_login_repairs_a_record_that_cannot_be_read)
{
    for (const char* text : {"", "{", R"({"format": 1, "tokens": []})"}) {
        store.text = text;
        make();
        expect_post().answer(200, pair_body("a2", "r2"));
        BOOST_CHECK(login("c1"));
        BOOST_TEST(current() == "a2");
    }
    store.text = R"({"format": 2, "tokens": {}})";
    make();
    BOOST_CHECK(login("c2").error().code == errc::config);  // the record of a newer version is left alone
}

BOOST_AUTO_TEST_CASE(a_token_that_could_not_be_used_is_not_kept)
{
    expect_post().answer(200, pair_body(std::string(1'100'000, 'a'), "r1"));
    const auto refused = login("c1");
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().context.find("1100000 bytes") != std::string::npos);
    expect_post().answer(200, pair_body(std::string(17'000, 'a'), "r1"));
    BOOST_CHECK(login("c2"));
    make();
    BOOST_TEST(current() == std::string(17'000, 'a'));
}

BOOST_AUTO_TEST_CASE(a_code_is_redeemed_with_the_verifier_that_was_kept)
{
    BOOST_CHECK(run(tokens->begin_login(crypto::secret("v1"), "s1")));
    make();
    clock.step(9min);
    BOOST_CHECK(run(tokens->login_with_code(crypto::secret("c1"), false, "s2")).error().code ==
                errc::refused);
    BOOST_TEST(http.requests.empty());
    expect_post().answer(200, pair_body("a1", "r1")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body.ends_with("&code_verifier=v1"));
    });
    BOOST_CHECK(run(tokens->login_with_code(crypto::secret("c1"), false, "s1")));
    BOOST_TEST(store.text->find("v1") == std::string::npos);

    BOOST_CHECK(run(tokens->begin_login(crypto::secret("v2"), "s2")));
    clock.step(11min);
    expect_post().answer(200, pair_body("a2", "r2")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body.find("code_verifier") == std::string::npos);
    });
    BOOST_CHECK(run(tokens->login_with_code(crypto::secret("c2"), false, "s3")));
}

BOOST_AUTO_TEST_CASE(tokens_that_cannot_be_written_are_held)
{
    expect_post().answer(200, pair_body("a1", "r1")).then([&](const auto&) { store.refusals = 3; });
    BOOST_CHECK(login("c1").error().code == errc::disk);
    BOOST_TEST(current() == "a1");
    BOOST_TEST(status().unsaved);
    BOOST_CHECK(run(tokens->flush()));
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");
}

BOOST_AUTO_TEST_CASE(a_patient_save_survives_a_short_refusal)
{
    expect_post().answer(200, pair_body("a1", "r1")).then([&](const auto&) { store.refusals = 2; });
    BOOST_CHECK(login("c1"));
    BOOST_TEST(store.record().tokens.refresh_token.view() == "r1");
}

BOOST_AUTO_TEST_CASE(a_seed_is_imported_once)
{
    expect_post().answer(200, pair_body("a1", "r1")).then([&](const support::seen_request& request) {
        BOOST_TEST(request.body.find("refresh_token=seed-1") != std::string::npos);
        BOOST_TEST(open_attempts("seed-1") == 1);
    });
    BOOST_CHECK(import("seed-1").value() == seed::imported);
    BOOST_TEST(current() == "a1");
    make();
    BOOST_CHECK(import("seed-1").value() == seed::known);
    BOOST_CHECK(import("r1").value() == seed::known);
    BOOST_TEST(http.requests.size() == 1u);
    BOOST_TEST(current() == "a1");
}

BOOST_AUTO_TEST_CASE(a_seed_that_stays_in_use_is_kept)
{
    expect_post().answer(200, R"({"access_token": "a1", "expires_in": 3600})");
    BOOST_CHECK(import("seed-1").value() == seed::imported);
    BOOST_TEST(store.record().tokens.refresh_token.view() == "seed-1");
    BOOST_CHECK(import("seed-1").value() == seed::known);
}

BOOST_AUTO_TEST_CASE(a_seed_whose_outcome_is_open)
{
    expect_post().fail(errc::no_answer);
    expect_post().fail(errc::no_answer);
    BOOST_CHECK(import("seed-1").error().code == errc::no_answer);
    make();
    BOOST_CHECK(import("seed-1").error().code == errc::login_required);
    BOOST_TEST(http.requests.size() == 2u);
    expect_post().answer(200, pair_body("a1", "r1"));
    BOOST_CHECK(import("seed-1", true).value() == seed::imported);
}

BOOST_AUTO_TEST_CASE(a_burnt_seed_is_never_replayed)
{
    given_login();
    expect_post().answer(400, R"({"error": "invalid_grant"})");
    BOOST_CHECK(import("seed-1").error().code == errc::login_required);
    make();
    BOOST_CHECK(import("seed-1").value() == seed::known);
    BOOST_TEST(current() == "a1");  // the existing grant is kept
    BOOST_CHECK(status().state == login_state::ok);
}

BOOST_AUTO_TEST_CASE(a_seed_that_was_not_sent_is_fresh)
{
    expect_post().fail(errc::not_resolved);
    BOOST_CHECK(import("seed-1").error().code == errc::not_resolved);
    make();
    expect_post().answer(200, pair_body("a1", "r1"));
    BOOST_CHECK(import("seed-1").value() == seed::imported);
}

BOOST_AUTO_TEST_CASE(a_seed_refused_for_its_client_is_not_spent)
{
    expect_post().answer(401, R"({"error": "invalid_client"})");
    BOOST_CHECK(import("seed-1").error().code == errc::client_refused);
    make();
    settings.client_id = "the-right-one";
    tokens->configure(settings);
    expect_post().answer(200, pair_body("a1", "r1"));
    BOOST_CHECK(import("seed-1").value() == seed::imported);
}

BOOST_AUTO_TEST_CASE(people_are_called_by_their_names)
{
    const auto token = support::jwt(R"({"sub": "62508f01-b321", "preferred_username": "svc-exposure"})");
    expect_post().answer(200, pair_body(token, "r1"));
    BOOST_CHECK(login("c1"));
    BOOST_TEST(status().subject == "svc-exposure");
    expect_post().answer(200, pair_of("62508f01-b321", "r2"));
    BOOST_CHECK(login("c2"));  // the same user
    BOOST_TEST(status().subject == "62508f01-b321");
}

BOOST_AUTO_TEST_CASE(logout_forgets_the_tokens_but_not_what_was_spent)
{
    given_login();
    BOOST_CHECK(run(tokens->logout()));
    BOOST_TEST(current() == "failed: login_required");
    BOOST_TEST(store.text->find("a1") == std::string::npos);
    BOOST_TEST(store.record().tokens.refresh_token.empty());
    BOOST_TEST(spent("code-0"));
    BOOST_CHECK(import("r1").value() == seed::known);
    expect_post().answer(200, pair_of("someone", "r2"));
    BOOST_CHECK(login("c2"));  // any user is accepted
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
