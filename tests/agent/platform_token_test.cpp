#include "agent/platform/authorize.hpp"
#include "agent/platform/token_endpoint.hpp"
#include "agent/platform/token_record.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"
#include "tests/support/each_change.hpp"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>

namespace {

const auto now = *policy::parse_date("2026-03-01T12:00:00Z");

std::string jwt(const std::string& claims)
{
    return "eyJhbGciOiJub25lIn0." + crypto::base64(claims) + ".c2ln";
}

BOOST_AUTO_TEST_SUITE(platform_token)

BOOST_AUTO_TEST_CASE(every_member_that_says_who_the_client_is_counts)
{
    policy::identity_settings settings{.auth_url = "https://login.example.com", .client_id = "a"};
    const crypto::secret password("s");
    const auto before = platform::client_fingerprint(settings, password);
    std::set<std::string> same;
    support::with_each_change(settings, "identity", [&](const std::string& name) {
        if (platform::client_fingerprint(settings, password) == before) same.insert(name);
    });
    BOOST_TEST(same == (std::set<std::string>{"identity.access_token", "identity.client_secret",
                                              "identity.publish_command", "identity.refresh_every",
                                              "identity.scope"}),
               boost::test_tools::per_element());
    BOOST_TEST(platform::client_fingerprint(settings, crypto::secret("t")) != before);
}

BOOST_AUTO_TEST_CASE(lifetimes_of_every_shape)
{
    const auto with_exp = jwt(R"({"exp": 1772370000})");  // 2026-03-01T13:00:00Z
    const struct {
        std::string token;
        const char* expires_in;
        const char* expected;
    } rows[] = {
        {"a", R"("expires_in": 604799)", "2026-03-08T11:59:59Z"},
        {"a", R"("expires_in": "3600")", "2026-03-01T13:00:00Z"},
        {"a", R"("expires_in": 3600.0)", "2026-03-01T13:00:00Z"},
        {"a", R"("expires_in": 3600.9)", "2026-03-01T13:00:00Z"},
        {"a", R"("expires_in": 0)", "unknown"},
        {"a", R"("expires_in": -1)", "unknown"},
        {"a", R"("expires_in": null)", "unknown"},
        {"a", R"("expires_in": "soon")", "unknown"},
        {"a", R"("expires_in": 99999999999999)", "unknown"},
        {"a", R"("scope": "user")", "unknown"},
        {with_exp, R"("expires_in": 0)", "2026-03-01T13:00:00Z"},
        {with_exp, R"("expires_in": -1)", "2026-03-01T13:00:00Z"},
        {with_exp, R"("scope": "user")", "2026-03-01T13:00:00Z"},
        {with_exp, R"("expires_in": 60)", "2026-03-01T12:01:00Z"},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.token << " " << row.expires_in)
        {
            const auto body = R"({"access_token": ")" + row.token + R"(", )" + row.expires_in + "}";
            const auto answer = platform::read_token_answer(body, now).value();
            BOOST_TEST((answer.expires_at ? policy::format_utc(*answer.expires_at) : "unknown") ==
                       row.expected);
        }
}

BOOST_AUTO_TEST_CASE(what_is_no_token_answer)
{
    for (const char* body :
         {"", "<html>", "[]", "{}", R"({"access_token": null})", R"({"access_token": ""})",
          R"({"access_token": 5})", R"({"access_token": "a\r\nX: y"})", R"({"access_token": "a b"})"})
        BOOST_TEST_CONTEXT(body)
    BOOST_CHECK(platform::read_token_answer(body, now).error().code == policy::errc::bad_answer);
}

BOOST_AUTO_TEST_CASE(claims_are_a_hint)
{
    const auto subject = [](const std::string& claims) {
        return platform::read_claims(crypto::secret(jwt(claims))).subject;
    };
    BOOST_TEST(subject(R"({"sub": "robot", "prn": "x"})") == "robot");
    BOOST_TEST(subject(R"({"prn": "robot@orion-123"})") == "robot@orion-123");
    BOOST_TEST(subject(R"({"user": "robot"})") == "robot");
    BOOST_TEST(subject(R"({"sub": null, "user_name": "robot"})") == "robot");
    BOOST_TEST(subject("{}") == "");
    for (const char* token : {"", "opaque", "a.b", "..", "a.!!.c", "a.bm90IGpzb24.c", "a.W10.c"}) {
        const auto claims = platform::read_claims(crypto::secret(token));
        BOOST_TEST(claims.subject == "");
        BOOST_CHECK(!claims.expires_at);
    }
}

BOOST_AUTO_TEST_CASE(the_record_is_read_back_as_it_was_written)
{
    platform::token_record record;
    record.tokens = {.access_token = crypto::secret("a2\"\\"),
                     .refresh_token = crypto::secret("r2"),
                     .obtained_at = now,
                     .expires_at = now + policy::duration(60)};
    record.previous = platform::token_pair{.access_token = crypto::secret("a1"),
                                           .refresh_token = crypto::secret("r1"),
                                           .obtained_at = now - policy::duration(60),
                                           .expires_at = std::nullopt};
    record.worked = true;
    record.second_chance = true;
    record.last_refresh_at = now;
    record.subject = "robot";
    record.granted_to = "client at host";
    record.at("f1").attempts = 2;
    record.at("f2").spent = true;
    record.at("f2").last = now;
    record.trouble = platform::login_trouble::client_refused;
    record.trouble_text = "fix it";
    record.trouble_since = now;
    record.refused_client = "f3";
    record.form_encoded_client = "f4";
    record.tokens.refresh_expires_at = now + policy::duration(600);
    record.session_ends_at = now + policy::duration(700);
    record.user = "svc-robot";
    record.failing_since = now;
    record.failing_text = "503";
    record.pending = platform::pending_login{.verifier = crypto::secret("v"), .state = "s", .begun_at = now};
    record.published = {.fingerprint = "f5", .at = now, .failures = 3};

    const auto text = platform::write_tokens(record);
    const auto read = platform::read_tokens(text.view()).value();
    BOOST_CHECK(platform::write_tokens(read) == text);
    BOOST_TEST(read.tokens.access_token.view() == "a2\"\\");
    BOOST_TEST(read.previous->refresh_token.view() == "r1");
    BOOST_CHECK(!read.previous->expires_at);
    BOOST_CHECK(read.presented == record.presented);
    BOOST_CHECK(read.trouble == platform::login_trouble::client_refused);
    BOOST_CHECK(read.trouble_since == now);
    BOOST_TEST(read.refused_client == "f3");
    BOOST_TEST(read.form_encoded_client == "f4");
    BOOST_CHECK(read.tokens.refresh_expires_at == now + policy::duration(600));
    BOOST_CHECK(read.session_ends_at == now + policy::duration(700));
    BOOST_TEST(read.user == "svc-robot");
    BOOST_CHECK(read.failing_since == now);
    BOOST_TEST(read.failing_text == "503");
    BOOST_TEST(read.pending.value().verifier.view() == "v");
    BOOST_TEST(read.pending->state == "s");
    BOOST_CHECK(read.pending->begun_at == now);
    BOOST_TEST(read.published.fingerprint == "f5");
    BOOST_CHECK(read.published.at == now);
    BOOST_TEST(read.published.failures == 3);
}

BOOST_AUTO_TEST_CASE(a_newer_record_is_refused_and_a_damaged_one_named)
{
    using policy::errc;
    BOOST_CHECK(platform::read_tokens(R"({"format": 2, "tokens": {}})").error().code == errc::config);
    for (const char* text : {"", "{", "null", "{}", R"({"format": "1"})", R"({"format": 1, "tokens": []})"})
        BOOST_CHECK(platform::read_tokens(text).error().code == errc::disk);
}

BOOST_AUTO_TEST_CASE(the_record_remembers_the_latest_of_many)
{
    platform::token_record record;
    for (int i = 0; i < 100; ++i)
        record.at("f" + std::to_string(i)).spent = true;
    BOOST_TEST(record.presented.size() <= 32u);
    BOOST_CHECK(record.find("f99") != nullptr);
    BOOST_CHECK(record.find("f0") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(platform_authorize)

BOOST_AUTO_TEST_CASE(the_address_to_open)
{
    policy::identity_settings settings;
    settings.auth_url = "https://login.example.com/SAAS/t/orion-123";
    settings.client_id = "exposure automation";
    settings.redirect_url = "http://localhost:8400/cb";
    const std::string plain =
        "https://login.example.com/SAAS/t/orion-123/auth/oauth2/authorize?response_type=code"
        "&client_id=exposure%20automation&redirect_uri=http%3A%2F%2Flocalhost%3A8400%2Fcb";
    BOOST_TEST(platform::authorize_url(settings, "") == plain);
    BOOST_TEST(platform::authorize_url(settings, "s1") == plain + "&state=s1");
    BOOST_TEST(platform::authorize_url(settings, "s1", "c1") ==
               plain + "&state=s1&code_challenge=c1&code_challenge_method=S256");
    settings.scope = "openid offline_access";
    BOOST_TEST(platform::authorize_url(settings, "s1") == plain + "&scope=openid%20offline_access&state=s1");
}

BOOST_AUTO_TEST_CASE(the_challenge_is_the_rfcs)  // RFC 7636, appendix B
{
    BOOST_TEST(platform::challenge_of(crypto::secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")) ==
               "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

BOOST_AUTO_TEST_CASE(codes_in_whatever_is_pasted)
{
    const struct {
        const char* text;
        const char* code;
        const char* state;
        const char* userstore;
    } rows[] = {
        {"http://localhost/?code=abc&userstore=u1", "abc", "", "u1"},
        {"http://localhost?code=abc&state=s1&userstore=u1", "abc", "s1", "u1"},
        {"  http://localhost:8400/cb?userstore=u1&code=a%2Fb%2Bc%3D\r\n", "a/b+c=", "", "u1"},
        {"\"http://localhost/?code=abc\"", "abc", "", ""},
        {"<http://localhost/?code=abc#fragment>", "abc", "", ""},
        {"?code=abc&state=s1", "abc", "s1", ""},
        {"code=abc&state=s1", "abc", "s1", ""},
        {"userstore=u1&code=abc", "abc", "", "u1"},
        {"abc", "abc", "", ""},
        {"abc-._~+=", "abc-._~+=", "", ""},
        {"a%2Fb", "a/b", "", ""},
        {"a+b/c==", "a+b/c==", "", ""},
        {"http://localhost/?code=first&code=second", "first", "", ""},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.text)
        {
            const auto read = platform::parse_redirected(row.text);
            BOOST_REQUIRE(read);
            BOOST_TEST(read->code.view() == row.code);
            BOOST_TEST(read->state == row.state);
            BOOST_TEST(read->userstore == row.userstore);
        }
}

BOOST_AUTO_TEST_CASE(what_holds_no_code)
{
    for (const char* text : {"", " \n", "http://localhost/", "http://localhost/?userstore=u1",
                             "?code=", "a b", "http://localhost/?code=a%0Ab", "/cb", "code=%20"})
        BOOST_TEST_CONTEXT(text)
    BOOST_CHECK(platform::parse_redirected(text).error().code == policy::errc::usage);
    BOOST_CHECK(!platform::parse_redirected(std::string(100'000, 'a')));
}

BOOST_AUTO_TEST_CASE(the_identity_providers_own_words_are_shown)
{
    const auto failure =
        platform::parse_redirected(
            "http://localhost/?error=access_denied&error_description=Not+in%20the+group%0A%1b[31m&code=x")
            .error();
    BOOST_CHECK(failure.code == policy::errc::refused);
    BOOST_TEST(failure.context.find("access_denied: Not in the group [31m") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_state_is_compared_when_it_comes_back)
{
    const auto read = [](const char* text) { return platform::parse_redirected(text).value(); };
    BOOST_CHECK(platform::check_state(read("?code=a&state=s1"), "s1"));
    BOOST_CHECK(platform::check_state(read("?code=a"), "s1"));
    BOOST_CHECK(platform::check_state(read("?code=a&state=s2"), "s1").error().code == policy::errc::refused);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
