#include "agent/platform/exposure_client.hpp"
#include "policy/dates.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/scripted_http.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

namespace {

using policy::errc;
using support::run_coroutine;

const std::string base = "https://les.example.com/api/v1/tenants/orion-123/instances";

// Returns the first token until it is refused, then the second.
class scripted_tokens final : public platform::access_tokens {
public:
    io::task<crypto::secret> current() override { co_return crypto::secret(std::string_view(token)); }

    io::task<crypto::secret> after_refusal(crypto::secret refused) override
    {
        refusals.emplace_back(refused.view());
        if (failure) co_return *failure;
        token = "second";
        co_return crypto::secret("second");
    }

    void accepted(const crypto::secret& good) override { accepted_tokens.emplace_back(good.view()); }

    std::string token = "first";
    std::optional<policy::failure> failure;
    std::vector<std::string> refusals;
    std::vector<std::string> accepted_tokens;
};

struct fixture {
    support::scripted_http http;
    scripted_tokens tokens;
    support::manual_clock clock;
    std::vector<std::string> observed;
    platform::api_channel channel{
        http, tokens, clock, [this](const platform::api_call& call, auto status) {
            observed.push_back(call.exposure + " " + call.operation + " " + std::string(status));
        }};
    platform::exposure_client client{channel};
    platform::exposure_address logs{.name = "logs",
                                    .variant = policy::variant::log,
                                    .base_url = "https://les.example.com",
                                    .tenant = "orion-123"};

    platform::group_choice choice{.group = {.id = "g", .name = "n"}};
    std::vector<policy::remote_user> listed;

    policy::result<platform::list_end> list_users()
    {
        const platform::exposure_api::user_handler keep = [this](policy::remote_user user) {
            listed.push_back(std::move(user));
        };
        return run_coroutine(client.list_users(logs, "i-1", keep));
    }

    ~fixture()
    {
        BOOST_TEST(http.unexpected.empty());
        BOOST_TEST(http.unused() == 0u);
    }
};

BOOST_FIXTURE_TEST_SUITE(platform_exposure_client, fixture)

BOOST_AUTO_TEST_CASE(a_get_carries_what_the_reference_asks_for)
{
    http.expect("GET", base).answer(200, R"({"items": [{"id": "i-1", "status": "READY"}]})");
    const auto instances = run_coroutine(client.list_instances(logs));
    BOOST_TEST(instances.value().at(0).id == "i-1");
    const auto& request = http.requests.at(0);
    BOOST_TEST(request.authorization == "Bearer first");
    BOOST_TEST(request.headers.at("Accept") == "application/json");
    BOOST_TEST(request.headers.count("Content-Type") == 0u);
    BOOST_TEST(request.body == "");
    BOOST_TEST(request.idempotent);
    BOOST_TEST(observed.at(0) == "logs list_instances 200");
    BOOST_TEST(tokens.accepted_tokens.at(0) == "first");
}

BOOST_AUTO_TEST_CASE(a_post_carries_its_body_and_is_not_idempotent)
{
    http.expect("POST", base + "/i-1/users").answer(201, R"({"id": "u-1", "name": "x"})");
    const policy::submission sent{.common_name = "logs-orion-123-siem-9f3c2a1b",
                                  .description = "d",
                                  .contact = "soc@example.com",
                                  .consumer_group = "siem"};
    const platform::group_choice group{.group = {.id = "", .name = "orion-123"}};
    BOOST_TEST(run_coroutine(client.create_user(logs, "i-1", sent, group, "QUJD")).value().id == "u-1");
    const auto& request = http.requests.at(0);
    BOOST_TEST(request.headers.at("Content-Type") == "application/json");
    BOOST_TEST(!request.idempotent);
    BOOST_CHECK(boost::json::parse(request.body) == boost::json::parse(R"({"businessGroupName": "orion-123",
        "consumerGroup": "siem", "contact": {"email": "soc@example.com"}, "csr": "QUJD", "description": "d"})"));
}

BOOST_AUTO_TEST_CASE(accepted_without_an_id_is_an_empty_id)
{
    http.expect("POST", base).answer(202, "");
    BOOST_TEST(run_coroutine(client.create_instance(logs, choice)).value().id == "");
}

BOOST_AUTO_TEST_CASE(segments_are_escaped)
{
    logs.tenant = "a/../b";
    http.expect("GET", "https://les.example.com/api/v1/tenants/a%2F..%2Fb/instances/i%3F1/users/u%2F1")
        .answer(200, R"({"id": "u/1"})");
    BOOST_CHECK(run_coroutine(client.read_user(logs, "i?1", "u/1")));
}

BOOST_AUTO_TEST_CASE(an_empty_id_is_never_sent)
{
    BOOST_CHECK_THROW(run_coroutine(client.delete_user(logs, "i-1", "")), std::logic_error);
    BOOST_TEST(http.requests.empty());
}

BOOST_AUTO_TEST_CASE(one_refresh_and_one_repeat_after_a_401)
{
    http.expect("POST", base).answer(401);
    http.expect("POST", base).answer(200, R"({"id": "i-1"})");
    BOOST_TEST(run_coroutine(client.create_instance(logs, choice)).value().id == "i-1");
    BOOST_TEST(http.requests.at(1).authorization == "Bearer second");
    BOOST_TEST(http.requests.at(0).body == http.requests.at(1).body);
    BOOST_TEST(tokens.refusals.size() == 1u);
    BOOST_TEST(tokens.accepted_tokens.at(0) == "second");
    BOOST_TEST(observed.size() == 2u);
    BOOST_TEST(observed.at(0) == "logs create_instance 401");
}

BOOST_AUTO_TEST_CASE(a_second_401_is_the_end)
{
    http.expect("GET", base).answer(401);
    http.expect("GET", base).answer(401);
    const auto failed = run_coroutine(client.list_instances(logs));
    BOOST_CHECK(failed.error().code == errc::unauthorized);
    BOOST_TEST(tokens.refusals.size() == 1u);
    BOOST_TEST(tokens.accepted_tokens.empty());
}

BOOST_AUTO_TEST_CASE(without_a_new_token_the_call_is_not_repeated)
{
    tokens.failure = policy::failure{.code = errc::login_required, .context = "log in"};
    http.expect("GET", base).answer(401);
    const auto failed = run_coroutine(client.list_instances(logs)).error();
    BOOST_CHECK(failed.code == errc::login_required);
    BOOST_TEST(failed.context == "exposure logs: list instances: log in");
}

BOOST_AUTO_TEST_CASE(a_403_asks_for_no_new_token)
{
    http.expect("GET", base).answer(403, R"({"message": "first is not allowed"})");
    const auto failed = run_coroutine(client.list_instances(logs)).error();
    BOOST_CHECK(failed.code == errc::forbidden);
    BOOST_TEST(tokens.refusals.empty());
    BOOST_TEST(
        failed.context ==
        "exposure logs: list instances: les.example.com answered 403 Forbidden ([hidden] is not allowed): "
        "the service user lacks the role, or tenant is not the login's; after a change of role, log in "
        "again");
}

BOOST_AUTO_TEST_CASE(a_page_of_html_with_200_is_no_empty_list)
{
    http.expect("GET", base + "/i-1/users")
        .answer(200, "<html>Log in</html>", {{"content-type", "text/html"}});
    const auto failed = list_users().error();
    BOOST_CHECK(failed.code == errc::bad_answer);
    BOOST_TEST(failed.context.find("exposure logs: list users") == 0u);
    BOOST_TEST(failed.context.find("les.example.com") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_list_is_handed_on_user_by_user)
{
    http.expect("GET", base + "/i-1/users").answer(200, R"({"items": [{"id": "u-1"}, {"id": "u-2"}]})");
    BOOST_TEST(list_users().value().users == 2u);
    BOOST_TEST(listed.size() == 2u);
    http.expect("GET", base + "/i-1/users").answer(200, R"({"items": [{"id": "u-1"}, 7]})");
    BOOST_CHECK(list_users().error().code == errc::bad_answer);
}

BOOST_AUTO_TEST_CASE(an_instance_by_its_id)
{
    http.expect("GET", base + "/i-1").answer(200, R"({"id": "i-1", "status": "FAILED"})");
    BOOST_TEST(run_coroutine(client.read_instance(logs, "i-1")).value().status_text == "FAILED");
    http.expect("GET", base + "/i-1").answer(200, R"({"id": "i-2", "status": "READY"})");
    BOOST_CHECK(run_coroutine(client.read_instance(logs, "i-1")).error().code == errc::bad_answer);
    http.expect("GET", base + "/i-1").answer(404);
    BOOST_CHECK(run_coroutine(client.read_instance(logs, "i-1")).error().code == errc::not_found);
}

BOOST_AUTO_TEST_CASE(a_404_of_the_base_path_is_about_base_url)
{
    http.expect("GET", base).answer(404);
    BOOST_TEST(run_coroutine(client.list_instances(logs)).error().context ==
               "exposure logs: list instances: les.example.com answered 404 Not Found; check base_url "
               "(https://les.example.com) and tenant");
}

BOOST_AUTO_TEST_CASE(a_refused_spelling_of_the_group_is_followed_by_the_other_one)
{
    using policy::group_fields;
    auto health = logs;
    health.variant = policy::variant::health;
    const auto sent = [&](std::size_t i) { return boost::json::parse(http.requests.at(i).body); };
    const auto spaces = boost::json::parse(R"({"spaceID": "g", "spaceName": "n"})");
    const auto groups = boost::json::parse(R"({"businessGroupId": "g", "businessGroupName": "n"})");
    for (const unsigned status : {400u, 422u}) {
        http.requests.clear();
        http.expect("POST", base).answer(status);
        http.expect("POST", base).answer(201, R"({"id": "i-1"})");
        const auto made = run_coroutine(client.create_instance(health, choice)).value();
        BOOST_CHECK(made.fields == group_fields::business_group);
        BOOST_CHECK(sent(0) == spaces);
        BOOST_CHECK(sent(1) == groups);
    }
    // both variants refused: each is sent once, and the first response is reported
    http.requests.clear();
    http.expect("POST", base).answer(400, R"({"message": "the former"})");
    http.expect("POST", base).answer(400, R"({"message": "the latter"})");
    const auto refused = run_coroutine(client.create_instance(health, choice)).error();
    BOOST_CHECK(refused.code == errc::refused);
    BOOST_TEST(refused.context.find("the former") != std::string::npos);
    BOOST_TEST(http.requests.size() == 2u);
    // an unknown outcome or a different refusal ends the attempt
    http.expect("POST", base).answer(400);
    http.expect("POST", base).fail(errc::no_answer);
    BOOST_CHECK(run_coroutine(client.create_instance(health, choice)).error().code == errc::no_answer);
    http.expect("POST", base).answer(409);
    BOOST_CHECK(run_coroutine(client.create_instance(health, choice)).error().code == errc::refused);
    // the names of the last accepted POST come first, and the others are still tried
    choice.fields = group_fields::business_group;
    http.requests.clear();
    http.expect("POST", base).answer(400);
    http.expect("POST", base).answer(201, R"({"id": "i-1"})");
    BOOST_CHECK(run_coroutine(client.create_instance(health, choice)).value().fields == group_fields::space);
    BOOST_CHECK(sent(0) == groups);
    BOOST_CHECK(sent(1) == spaces);
    // names that are configured or shown are the only ones
    choice.fixed = true;
    http.expect("POST", base).answer(400);
    BOOST_CHECK(!run_coroutine(client.create_instance(health, choice)));
    BOOST_CHECK(boost::json::parse(http.requests.back().body) == groups);
}

BOOST_AUTO_TEST_CASE(a_missing_group_id_says_where_to_find_it)
{
    choice = {
        .group = {.id = "", .name = "n"}, .fields = policy::group_fields::business_group, .fixed = true};
    http.expect("POST", base).answer(400, R"({"message": "businessGroupId is required"})");
    const auto failed = run_coroutine(client.create_instance(logs, choice)).error();
    BOOST_TEST(failed.context.find("set business_group: {id, name}") != std::string::npos);
    BOOST_TEST(failed.context.find("exposure-agent users logs") != std::string::npos);
    http.expect("POST", base).answer(400, R"({"message": "the quota is used up"})");
    const auto other = run_coroutine(client.create_instance(logs, choice)).error();
    BOOST_TEST(other.context.find("business_group") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_link_header_cuts_the_list_off)
{
    http.expect("GET", base + "/i-1/users").answer(200, R"({"items": []})", {{"link", "</x>; rel=\"next\""}});
    BOOST_TEST(list_users().value().cut_off);
}

BOOST_AUTO_TEST_CASE(another_users_answer_is_not_believed)
{
    http.expect("GET", base + "/i-1/users/u-1").answer(200, R"({"id": "u-2", "certificate": "x"})");
    BOOST_CHECK(run_coroutine(client.read_user(logs, "i-1", "u-1")).error().code == errc::bad_answer);
}

BOOST_AUTO_TEST_CASE(a_user_that_is_gone)
{
    http.expect("GET", base + "/i-1/users/u-1").answer(404);
    BOOST_CHECK(run_coroutine(client.read_user(logs, "i-1", "u-1")).error().code == errc::not_found);
}

BOOST_AUTO_TEST_CASE(deletion_is_done_by_class_and_when_gone)
{
    for (const unsigned status : {200u, 202u, 204u, 404u, 410u}) {
        http.expect("DELETE", base + "/i-1/users/u-1").answer(status);
        BOOST_CHECK(run_coroutine(client.delete_user(logs, "i-1", "u-1")));
    }
    http.expect("DELETE", base + "/i-1/users/u-1").answer(403);
    BOOST_CHECK(run_coroutine(client.delete_user(logs, "i-1", "u-1")).error().code == errc::forbidden);
}

BOOST_AUTO_TEST_CASE(a_lost_answer_keeps_its_code)
{
    http.expect("POST", base).fail(errc::no_answer, "les.example.com closed the connection");
    const auto failed = run_coroutine(client.create_instance(logs, choice)).error();
    BOOST_CHECK(failed.code == errc::no_answer);
    BOOST_TEST(observed.at(0) == "logs create_instance no_answer");
}

BOOST_AUTO_TEST_CASE(the_platforms_clock)
{
    BOOST_CHECK(!client.clock_ahead(logs));
    http.expect("GET", base).answer(200, R"({"items": []})", {{"date", "Sat, 28 Feb 2026 23:59:30 GMT"}});
    BOOST_CHECK(run_coroutine(client.list_instances(logs)));
    BOOST_CHECK(client.clock_ahead(logs) == policy::duration(30));
    auto other = logs;
    other.base_url = "https://hes.example.com";
    BOOST_CHECK(!client.clock_ahead(other));
}

// ---- pacing

struct paced : fixture {
    const std::string place = base + "/i-1/users/u-1";

    policy::result<platform::user_detail> read()
    {
        return run_coroutine(context, client.read_user(logs, "i-1", "u-1"), &clock);
    }
    support::scripted_http::step& expect() { return http.expect("GET", place); }
    void answer_well(int times)
    {
        for (int i = 0; i < times; ++i)
            expect().answer(200, R"({"id": "u-1"})");
    }

    boost::asio::io_context context;
};

BOOST_FIXTURE_TEST_CASE(after_a_429_it_waits_for_its_turn_and_is_sent_again, paced)
{
    using std::chrono::milliseconds;
    expect().answer(429, "", {{"retry-after", "5"}});
    answer_well(1);
    BOOST_CHECK(read());
    BOOST_TEST_REQUIRE(clock.slept.size() == 1U);
    BOOST_CHECK(clock.slept.front() == milliseconds(5000));
    // from then on requests are spaced out, until enough of them have succeeded
    answer_well(8);
    for (int i = 0; i < 8; ++i)
        BOOST_CHECK(read());
    BOOST_CHECK(clock.slept.size() > 3U);
    BOOST_CHECK(clock.slept[1] == milliseconds(1000));
    BOOST_CHECK(clock.slept.back() < milliseconds(1000));
    clock.slept.clear();
    answer_well(1);
    BOOST_CHECK(read());
    BOOST_TEST(clock.slept.empty());
}

BOOST_FIXTURE_TEST_CASE(a_limit_that_stays_is_the_answer_in_the_end, paced)
{
    for (int i = 0; i < 4; ++i)
        expect().answer(429);
    const auto read_it = read();
    BOOST_TEST_REQUIRE(!read_it);
    BOOST_CHECK(read_it.error().code == errc::throttled);
    BOOST_TEST(http.unused() == 0U);
    BOOST_TEST(http.unexpected.empty());
    for (std::size_t i = 1; i < clock.slept.size(); ++i)
        BOOST_CHECK(clock.slept[i] > clock.slept[i - 1]);
}

BOOST_FIXTURE_TEST_CASE(a_long_retry_after_is_honoured_by_every_request, paced)
{
    expect().answer(503, "", {{"retry-after", "600"}});
    BOOST_CHECK(read().error().code == errc::unavailable);
    const auto sent = http.requests.size();
    const auto again = read();
    BOOST_TEST_REQUIRE(!again);
    BOOST_CHECK(again.error().code == errc::throttled);
    BOOST_CHECK(again.error().retry_after == std::chrono::seconds(600));
    BOOST_TEST(http.requests.size() == sent);
    // other platforms are not affected
    auto other = logs;
    other.base_url = "https://hes.example.com";
    http.expect("GET", "https://hes.example.com/api/v1/tenants/orion-123/instances/i-1/users/u-1")
        .answer(200, R"({"id": "u-1"})");
    BOOST_CHECK(run_coroutine(context, client.read_user(other, "i-1", "u-1"), &clock));
    clock.step(std::chrono::seconds(600));
    answer_well(1);
    BOOST_CHECK(read());
}

// The intent of a POST is stored before it, and settle times count from there, so it cannot wait for long.
BOOST_FIXTURE_TEST_CASE(a_post_waits_a_short_while_only, paced)
{
    expect().answer(503, "", {{"retry-after", "30"}});
    BOOST_CHECK(!read());
    const auto sent = http.requests.size();
    const auto made = run_coroutine(context, client.create_user(logs, "i-1", {}, choice, "csr"), &clock);
    BOOST_TEST_REQUIRE(!made);
    BOOST_CHECK(made.error().code == errc::throttled);
    BOOST_TEST(http.requests.size() == sent);
    answer_well(1);
    BOOST_CHECK(read());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
