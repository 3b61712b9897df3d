#include "agent/platform/catalog_client.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/scripted_http.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

namespace {

namespace json = boost::json;

using policy::errc;
using support::run_coroutine;

bool says(const std::string& sentence, std::string_view words)
{
    return sentence.find(words) != std::string::npos;
}

// Result of applying the extraction rule to "provider-accessKeyID": its value, or the error message.
std::string extracted(const std::string& updates)
{
    const std::string wanted = "provider-accessKeyID";
    const auto read = platform::extract_values(R"({"elementUpdates": )" + updates + "}", {wanted});
    if (!read) return "bad answer: " + read.error().context;
    const auto found = read->values.find(wanted);
    if (found == read->values.end()) return read->missing.at(wanted);
    BOOST_TEST(read->missing.empty());
    return "value: " + std::string(found->second.view());
}

// An update of the wanted element with these facets.
std::string facets(const std::string& list)
{
    return R"([{"id": "provider-accessKeyID", "facetValues": {"facets": )" + list + "}}]";
}

BOOST_AUTO_TEST_SUITE(platform_catalog_json)

BOOST_AUTO_TEST_CASE(the_extraction_rule)
{
    const std::string good = R"({"type": "fixedValue", "value": {"type": "string", "value": "AKIA"}})";
    const std::string other = R"({"type": "fixedValue", "value": {"type": "string", "value": "decoy"}})";
    const std::string decoy = R"({"type": "defaultValue", "value": {"type": "string", "value": "decoy"}})";
    const std::string update = facets("[" + good + "]").substr(1);
    const std::string stranger =
        R"({"id": "provider-secretAccessKey", "facetValues": {"facets": [)" + other + "]}}";
    const struct {
        const char* name;
        std::string updates;
        const char* expected;
    } rows[] = {
        {"as the reference shows it", facets("[" + good + "]"), "value: AKIA"},
        {"a decoy facet before it", facets("[" + decoy + "," + good + "]"), "value: AKIA"},
        {"a decoy facet after it", facets("[" + good + "," + decoy + "]"), "value: AKIA"},
        {"two of type fixedValue: the first", facets("[" + good + "," + other + "]"), "value: AKIA"},
        {"another element before it", "[" + stranger + "," + update, "value: AKIA"},
        {"the id twice: the first entry",
         facets("[" + good + "]").substr(0, facets("[" + good + "]").size() - 1) + "," +
             facets("[" + other + "]").substr(1),
         "value: AKIA"},
        {"entries that are no objects", R"([null, 7, "x", )" + update, "value: AKIA"},
        {"facets that are no objects", facets("[null, 7, " + good + "]"), "value: AKIA"},
        {"unknown fields everywhere",
         R"([{"x": 1, "id": "provider-accessKeyID", "facetValues": {"y": [], "facets": [{"type": "fixedValue",
             "value": {"z": {}, "value": "AKIA"}}]}}])",
         "value: AKIA"},
        {"an empty text is a text",
         facets(R"([{"type": "fixedValue", "value": {"type": "string", "value": ""}}])"), "value: "},
        {"no entry", "[]", "element provider-accessKeyID not found in the action's form"},
        {"another element only", "[" + stranger + "]",
         "element provider-accessKeyID not found in the action's form"},
        {"an id that only begins like it", R"([{"id": "provider-accessKeyID2"}])",
         "not found in the action's form"},
        {"no facetValues", R"([{"id": "provider-accessKeyID"}])", "no facet of type fixedValue"},
        {"facetValues null", R"([{"id": "provider-accessKeyID", "facetValues": null}])", "no facet of type"},
        {"facets null", facets("null"), "no facet of type fixedValue"},
        {"no facets", facets("[]"), "no facet of type fixedValue"},
        {"other facets only", facets("[" + decoy + "]"), "no facet of type fixedValue"},
        {"another case is another type", facets(R"([{"type": "FixedValue", "value": {"value": "x"}}])"),
         "no facet of type fixedValue"},
        {"no value", facets(R"([{"type": "fixedValue"}])"), "has no value yet (null)"},
        {"value null", facets(R"([{"type": "fixedValue", "value": null}])"), "has no value yet (null)"},
        {"value without value", facets(R"([{"type": "fixedValue", "value": {"type": "string"}}])"),
         "has no value yet (null)"},
        {"value.value null", facets(R"([{"type": "fixedValue", "value": {"value": null}}])"),
         "has no value yet (null)"},
        {"the first fixedValue is null, the second is not",
         facets(R"([{"type": "fixedValue", "value": null}, )" + good + "]"), "has no value yet (null)"},
        {"a number", facets(R"([{"type": "fixedValue", "value": {"type": "integer", "value": 7}}])"),
         "value: 7"},
        {"a fraction", facets(R"([{"type": "fixedValue", "value": {"value": 1.5}}])"), "value: 1.5"},
        {"a boolean", facets(R"([{"type": "fixedValue", "value": {"value": false}}])"), "value: false"},
        {"an object", facets(R"([{"type": "fixedValue", "value": {"value": {"x": "AKIA"}}}])"),
         "is not a string, a number or a boolean"},
        {"a list", facets(R"([{"type": "fixedValue", "value": {"value": ["AKIA"]}}])"),
         "is not a string, a number or a boolean"},
        {"a bare text for value", facets(R"([{"type": "fixedValue", "value": "AKIA"}])"),
         "is not a string, a number or a boolean"},
        {"the first entry has none, the second has", R"([{"id": "provider-accessKeyID"}, )" + update,
         "no facet of type fixedValue"},
        {"no list at all", "{}", "bad answer: it has no elementUpdates list"},
        {"null", "null", "bad answer: it has no elementUpdates list"},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.name)
        {
            const auto result = extracted(row.updates);
            const std::string expected = row.expected;
            if (expected.starts_with("value: "))
                BOOST_TEST(result == expected);
            else
                BOOST_TEST(says(result, expected), result);
        }
}

BOOST_AUTO_TEST_CASE(elements_that_are_missing_do_not_hide_the_others)
{
    const auto body = R"({"elementUpdates": [{"id": "b", "facetValues": {"facets":
        [{"type": "fixedValue", "value": {"type": "string", "value": "B"}}]}}]})";
    const auto read = platform::extract_values(body, {"a", "b"}).value();
    BOOST_TEST(read.values.size() == 1u);
    BOOST_TEST(read.values.at("b").view() == "B");
    BOOST_TEST(says(read.missing.at("a"), "element a not found in the action's form"));
    BOOST_CHECK(!platform::extract_values("<html>", {"a"}));
    const auto typed = platform::extract_values(R"({"elementUpdates": [
        {"id": "a", "facetValues": {"facets": [{"type": "fixedValue", "value": {"type": "integer", "value": 7}}]}},
        {"id": "b", "facetValues": {"facets": [{"type": "fixedValue", "value": {"value": true}}]}}]})",
                                                {"a", "b"})
                           .value();
    BOOST_TEST(typed.types.at("a") == "integer");
    BOOST_TEST(typed.types.at("b") == "boolean");
    BOOST_CHECK(!platform::extract_values("[]", {"a"}));
}

BOOST_AUTO_TEST_CASE(states_of_a_request)
{
    const struct {
        const char* body;
        const char* text;
        bool finished;
        bool succeeded;
    } rows[] = {
        {R"({"state": "IN_PROGRESS", "final": false, "successful": false})", "IN_PROGRESS", false, false},
        {R"({"phase": "SUCCESSFUL", "final": true, "successful": true})", "SUCCESSFUL", true, true},
        {R"({"state": "PROVIDER_COMPLETED", "final": true, "successful": true})", "PROVIDER_COMPLETED", true,
         true},
        {R"({"state": "PROVIDER_FAILED", "final": true, "successful": false})", "PROVIDER_FAILED", true,
         false},
        {R"({"state": "FAILED", "final": false, "successful": false})", "FAILED", false, false},
        {R"({"state": "SUCCESSFUL", "final": "true", "successful": "true"})", "SUCCESSFUL", true, true},
        {R"({"phase": "SUCCESSFUL", "final": true})", "SUCCESSFUL", true, true},
        {R"({"final": true, "successful": true})", "SUCCESSFUL", true, true},
        {R"({"final": true})", "FAILED", true, false},
        {R"({"final": false})", "IN_PROGRESS", false, false},
        {R"({"phase": "FAILED", "state": "SUCCESSFUL"})", "FAILED", true, false},
        {R"({"state": "SUCCESSFUL"})", "SUCCESSFUL", true, true},
        {R"({"state": "REJECTED", "final": null})", "REJECTED", true, false},
        {R"({"state": "PROVIDER_FAILED"})", "PROVIDER_FAILED", true, false},
        {R"({"phase": "PENDING_PRE_APPROVAL"})", "PENDING_PRE_APPROVAL", false, false},
        {R"({"phase": "UNSUBMITTED", "state": "SUBMITTED"})", "UNSUBMITTED", false, false},
        {R"({"state": "SOMETHING_NEW"})", "SOMETHING_NEW", false, false},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.body)
        {
            const auto state = platform::read_request_state(row.body).value();
            BOOST_TEST(state.text == row.text);
            BOOST_TEST(state.finished == row.finished);
            BOOST_TEST(state.succeeded == row.succeeded);
        }
    for (const char* body : {"", "<html>", "[]", "{}", R"({"id": "r-1"})"})
        BOOST_CHECK(!platform::read_request_state(body));
    const auto detailed = platform::read_request_state(
        R"({"id": "r-1", "state": "FAILED", "requestCompletion": {"completionDetails": "no\nquota"}})");
    BOOST_TEST(detailed.value().id == "r-1");
    BOOST_TEST(detailed->details == "no quota");
}

BOOST_AUTO_TEST_CASE(the_id_of_a_submission)
{
    using platform::read_submitted_id;
    BOOST_TEST(read_submitted_id(R"({"id": "r-1"})", "https://c.example.com/requests/r-2") == "r-1");
    BOOST_TEST(read_submitted_id("", "https://c.example.com/consumer/requests/r-2") == "r-2");
    BOOST_TEST(read_submitted_id("{}", "/consumer/requests/r-2/?x=y/z") == "r-2");
    BOOST_TEST(read_submitted_id("<html>", "") == "");
}

BOOST_AUTO_TEST_CASE(assignments_over_a_template)
{
    const std::string model = R"({"type": "com.example.Request", "description": null,
        "data": {"planName": null, "serviceName": null, "p_vm_cpu_count": null, "tmpCatalog": {"a": 1}}})";
    const auto laid = platform::overlay(model, {"planName=small", "p_vm_cpu_count=2", "serviceName=\"2\"",
                                                "tmpCatalog={\"b\": [true, null]}"})
                          .value();
    BOOST_CHECK(json::parse(laid) == json::parse(R"({"type": "com.example.Request", "description": null,
        "data": {"planName": "small", "serviceName": "2", "p_vm_cpu_count": 2, "tmpCatalog": {"b": [true, null]}}})"));
    const auto value = [&](const std::string& text) {
        const auto whole = json::parse(platform::overlay(model, {"planName=" + text}).value());
        return json::serialize(whole.at("data").at("planName"));
    };
    BOOST_TEST(value("") == R"("")");
    BOOST_TEST(value("a=b") == R"("a=b")");
    BOOST_TEST(value("true") == "true");
    BOOST_TEST(value("null") == "null");
    BOOST_TEST(value("1.5") == "1.5E0");
    BOOST_TEST(value("1 2") == R"("1 2")");
    BOOST_TEST(value("{broken") == R"("{broken")");

    const auto refused = [&](const std::string& assignment) {
        const auto failure = platform::overlay(model, {assignment}).error();
        BOOST_CHECK(failure.code == errc::usage);
        return failure.context;
    };
    BOOST_TEST(says(refused("planNmae=x"), "did you mean planName?"));
    BOOST_TEST(says(refused("colour=x"), "the request has planName, serviceName"));
    BOOST_TEST(says(refused("type=x"), "'type'"));
    BOOST_TEST(says(refused("planName"), "KEY=VALUE"));
    BOOST_TEST(says(refused("=x"), "KEY=VALUE"));
    BOOST_CHECK(platform::overlay("{}", {}).error().code == errc::bad_answer);
    BOOST_CHECK(platform::overlay("<html>", {}).error().code == errc::bad_answer);
}

BOOST_AUTO_TEST_SUITE_END()

class one_token final : public platform::access_tokens {
public:
    io::task<crypto::secret> current() override { co_return crypto::secret("t1"); }
    io::task<crypto::secret> after_refusal(crypto::secret) override { co_return crypto::secret("t2"); }
};

const std::string base = "https://catalog.example.com/catalog-service/api/consumer";

struct fixture {
    support::scripted_http http;
    one_token tokens;
    support::manual_clock clock;
    platform::api_channel channel{http, tokens, clock};
    platform::catalog_client client{channel, "https://catalog.example.com"};

    ~fixture()
    {
        BOOST_TEST(http.unexpected.empty());
        BOOST_TEST(http.unused() == 0u);
    }

    policy::result<std::string> submit(const char* body)
    {
        auto made = run_coroutine(client.submit("item 1", "bg/1", body));
        if (!made) return made.error();
        answer = made->answer;
        return made->id;
    }

    std::string answer;  // of the last submission
};

const std::string submission = base + "/entitledCatalogItems/item%201/requests?businessGroupId=bg%2F1";

BOOST_FIXTURE_TEST_SUITE(platform_catalog_client, fixture)

BOOST_AUTO_TEST_CASE(the_template_is_the_custom_one)
{
    http.expect("GET", base + "/entitledCatalogItems/i-1/requests/customTemplate?businessGroupId=bg-1")
        .answer(200, R"({"type": "t", "data": {}})");
    BOOST_TEST(run_coroutine(client.request_template("i-1", "bg-1")).value() ==
               R"({"type": "t", "data": {}})");
    BOOST_TEST(http.requests.at(0).authorization == "Bearer t1");
}

BOOST_AUTO_TEST_CASE(a_submission)
{
    http.expect("POST", submission).answer(201, R"({"id": "r-1"})");
    BOOST_TEST(submit(R"({"type": "t", "data": {"a": 1}})").value() == "r-1");
    BOOST_TEST(http.requests.at(0).body == R"({"type": "t", "data": {"a": 1}})");
    BOOST_TEST(!http.requests.at(0).idempotent);
    BOOST_TEST(answer == R"({"id": "r-1"})");

    http.expect("POST", submission).answer(201, "", {{"location", base + "/requests/r-2"}});
    BOOST_TEST(submit(R"({"type": "t"})").value() == "r-2");
    http.expect("POST", submission).answer(204);
    BOOST_TEST(submit(R"({"type": "t"})").value() == "");
}

BOOST_AUTO_TEST_CASE(a_type_is_taken_from_the_template)
{
    http.expect("GET", base + "/entitledCatalogItems/item%201/requests/customTemplate?businessGroupId=bg%2F1")
        .answer(200, R"({"type": "com.example.Request", "data": {"b": null}})");
    http.expect("POST", submission).answer(201, R"({"id": "r-1"})");
    BOOST_TEST(submit(R"({"data": {"a": 1}})").value() == "r-1");
    BOOST_CHECK(json::parse(http.requests.at(1).body) ==
                json::parse(R"({"type": "com.example.Request", "data": {"a": 1}})"));
}

BOOST_AUTO_TEST_CASE(a_bare_data_object_is_put_under_data)
{
    http.expect("GET", base + "/entitledCatalogItems/item%201/requests/customTemplate?businessGroupId=bg%2F1")
        .answer(200, R"({"type": "com.example.Request", "data": {"a": null}})");
    http.expect("POST", submission).answer(201, R"({"id": "r-1"})");
    BOOST_TEST(submit(R"({"a": 1})").value() == "r-1");
    BOOST_CHECK(json::parse(http.requests.at(1).body) ==
                json::parse(R"({"type": "com.example.Request", "data": {"a": 1}})"));
}

BOOST_AUTO_TEST_CASE(a_template_without_a_type_submits_nothing)
{
    http.expect("GET", base + "/entitledCatalogItems/item%201/requests/customTemplate?businessGroupId=bg%2F1")
        .answer(200, R"({"data": {}})");
    BOOST_CHECK(submit("{}").error().code == errc::bad_answer);
    BOOST_CHECK(submit("not json").error().code == errc::usage);
    BOOST_TEST(http.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_submission_with_an_open_outcome_is_not_repeated)
{
    http.expect("POST", submission).fail(errc::no_answer);
    http.expect("POST", submission).answer(500);
    http.expect("POST", submission).answer(200, "<html>");
    for (int i = 0; i < 3; ++i) {
        const auto failure = submit(R"({"type": "t"})").error();
        BOOST_CHECK(failure.code == errc::no_answer);
        BOOST_TEST(says(failure.context, "not sent again"));
        BOOST_TEST(says(failure.context, "catalog show"));
    }
    BOOST_TEST(http.requests.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_refused_submission_is_certain)
{
    http.expect("POST", submission)
        .answer(400, R"({"errors": [{"code": 12017, "message": "no such plan"}]})");
    const auto failure = submit(R"({"type": "t"})").error();
    BOOST_CHECK(failure.code == errc::refused);
    BOOST_TEST(says(failure.context, "12017: no such plan"));
    BOOST_TEST(!says(failure.context, "may have been started"));
}

BOOST_AUTO_TEST_CASE(a_request_is_followed_by_its_id)
{
    http.expect("GET", base + "/requests/r-1").answer(200, R"({"state": "SUBMITTED", "final": false})");
    const auto state = run_coroutine(client.show("r-1")).value();
    BOOST_TEST(state.id == "r-1");
    BOOST_TEST(!state.finished);
    http.expect("GET", base + "/requests/r-1").answer(200, "<html>");
    BOOST_CHECK(run_coroutine(client.show("r-1")).error().code == errc::bad_answer);
}

BOOST_AUTO_TEST_CASE(forms_of_actions)
{
    http.expect("GET", base + "/resources/res-1/actions/act-1/forms/request")
        .answer(200, R"({"layout": {}})");
    BOOST_TEST(run_coroutine(client.action_form("res-1", "act-1")).value() == R"({"layout": {}})");

    http.expect("POST", base + "/resources/res-1/actions/act-1/forms/request/update")
        .answer(200, R"({"elementUpdates": [{"id": "a", "facetValues": {"facets":
            [{"type": "fixedValue", "value": {"type": "string", "value": "A"}}]}}]})");
    const std::vector<std::string> elements = {"a", "b"};
    const auto values = run_coroutine(client.action_values("res-1", "act-1", elements)).value();
    BOOST_TEST(values.values.at("a").view() == "A");
    BOOST_TEST(values.missing.count("b") == 1u);
    BOOST_TEST(http.requests.at(1).body == R"({"affectedElements":["a","b"]})");
}

BOOST_AUTO_TEST_CASE(an_empty_id_is_never_sent)
{
    BOOST_CHECK(run_coroutine(client.request_template("", "bg")).error().code == errc::usage);
    BOOST_CHECK(run_coroutine(client.request_template("i", "")).error().code == errc::usage);
    BOOST_CHECK(run_coroutine(client.submit("", "bg", "{}")).error().code == errc::usage);
    BOOST_CHECK(run_coroutine(client.show("")).error().code == errc::usage);
    BOOST_CHECK(run_coroutine(client.action_form("r", "")).error().code == errc::usage);
    const std::vector<std::string> blank = {"a", ""};
    BOOST_CHECK(run_coroutine(client.action_values("r", "a", blank)).error().code == errc::usage);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
