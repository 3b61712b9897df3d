#include "agent/deploy/broker_probe.hpp"
#include "agent/deploy/connection_watch.hpp"
#include "tests/support/recording_process.hpp"
#include "tests/support/run_coroutine.hpp"

#include <boost/json.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>

namespace {

using deploy::verify_verdict;
using policy::errc;

deploy::verify_request request()
{
    return {.exposure = "logs",
            .user = "siem",
            .broker = "broker.example.com:9093",
            .broker_ca_file = "/etc/ssl/broker-ca.pem",
            .topic = "logs-orion-123",
            .consumer_group = "siem",
            .key_pem = crypto::secret("the key"),
            .certificate_pem = "the chain"};
}

struct fixture {
    support::recording_process process;
    deploy::broker_probe probe{process, "/usr/bin/exposure-agent-probe"};

    policy::result<deploy::verify_answer> ask(io::process_outcome outcome)
    {
        process.outcomes = {std::move(outcome)};
        return support::run_coroutine(probe.ask(request()));
    }
};

io::process_outcome said(std::string line)
{
    return {.exit_code = 0, .out = std::move(line), .err = {}};
}

struct line {
    std::string verdict;
    verify_verdict meaning;
};

std::ostream& operator<<(std::ostream& out, const line& l)
{
    return out << l.verdict;
}

const std::vector<line> lines = {{"accepted", verify_verdict::accepted},
                                 {"refused_tls", verify_verdict::refused_tls},
                                 {"not_authorized_topic", verify_verdict::topic_not_granted},
                                 {"not_authorized_group", verify_verdict::group_not_granted},
                                 {"unreachable", verify_verdict::unreachable}};

const std::vector<std::string> nonsense = {"",
                                           "accepted",
                                           "[]",
                                           R"({"verdict":"accepted"})",
                                           R"({"verdict":"yes","evidence":""})",
                                           R"({"verdict":1,"evidence":""})",
                                           R"({"verdict":"accepted","evidence":null})",
                                           R"({"verdict":"accepted","evidence":""} {})"};

// log messages of librdkafka 2.0.2
const std::string greeted =
    "[thrd:ssl://b:9093/bootstrap]: ssl://b:9093/bootstrap: Broker changed state SSL_HANDSHAKE -> "
    "APIVERSION_QUERY";
const std::string cut_off =
    "[thrd:ssl://b:9093/bootstrap]: ssl://b:9093/bootstrap: Broker changed state APIVERSION_QUERY -> DOWN";
const std::string up =
    "[thrd:ssl://b:9093/bootstrap]: ssl://b:9093/bootstrap: Broker changed state APIVERSION_QUERY -> UP";
const std::string alert =
    "ssl://b:9093/bootstrap: Receive failed: ../ssl/record/rec_layer_s3.c:1602:ssl3_read_bytes "
    "error:0A000416:SSL "
    "routines::sslv3 alert certificate unknown: SSL alert number 46 (after 5ms in state APIVERSION_QUERY)";
const std::string other_alert =
    "ssl://b:9093/bootstrap: SSL handshake failed: error:0A00042E:SSL routines::tlsv1 alert protocol "
    "version: SSL "
    "alert number 70 (after 5ms in state SSL_HANDSHAKE)";

BOOST_AUTO_TEST_SUITE(deploy_probe)

BOOST_FIXTURE_TEST_CASE(the_request_travels_on_standard_input, fixture)
{
    BOOST_TEST(ask(said(R"({"verdict":"accepted","evidence":"fine"})")).has_value());
    const auto& run = process.requests.at(0);
    BOOST_TEST(run.argv.size() == 1u);
    BOOST_TEST(run.argv[0] == "/usr/bin/exposure-agent-probe");
    BOOST_TEST(run.environment.empty());
    const auto sent = boost::json::parse(run.input).as_object();
    BOOST_TEST(sent.at("broker").as_string() == "broker.example.com:9093");
    BOOST_TEST(sent.at("ca_file").as_string() == "/etc/ssl/broker-ca.pem");
    BOOST_TEST(sent.at("key_pem").as_string() == "the key");
    BOOST_TEST(sent.at("certificate_pem").as_string() == "the chain");
    BOOST_TEST(sent.at("topic").as_string() == "logs-orion-123");
    BOOST_TEST(sent.at("group").as_string() == "siem");
    BOOST_TEST(sent.at("timeout_ms").as_int64() < run.timeout.count());
}

BOOST_DATA_TEST_CASE_F(fixture, every_verdict_is_read, lines)
{
    const auto answer = ask(said(R"({"verdict":")" + sample.verdict + R"(","evidence":"because\n"})" + "\n"));
    BOOST_REQUIRE(answer.has_value());
    BOOST_TEST((answer->verdict == sample.meaning));
    BOOST_TEST(answer->evidence == "because\\n");
}

BOOST_DATA_TEST_CASE_F(fixture, nonsense_is_no_verdict, nonsense)
{
    const auto answer = ask(said(sample));
    BOOST_REQUIRE(!answer.has_value());
    BOOST_TEST((answer.error().code == errc::probe_unreachable));
    BOOST_TEST(answer.error().context.starts_with(
        "logs/siem: could not test the certificate with broker.example.com"));
}

BOOST_FIXTURE_TEST_CASE(a_probe_that_fails_gives_no_verdict, fixture)
{
    const auto crashed =
        ask({.exit_code = -1, .signal = 11, .out = R"({"verdict":"accepted","evidence":""})", .err = {}});
    BOOST_TEST((crashed.error().code == errc::probe_unreachable));
    const auto refused = ask({.exit_code = 70, .out = {}, .err = "cannot read key.pem"});
    BOOST_TEST(refused.error().context.find("cannot read key.pem") != std::string::npos);
    const auto hung = ask({.exit_code = -1, .signal = 9, .timed_out = true, .out = {}, .err = {}});
    BOOST_TEST(hung.error().context.find("timed out and was killed") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_stop_passes_through, fixture)
{
    process.outcomes = {policy::failure{.code = errc::stopping, .context = "told to stop"}};
    BOOST_TEST((support::run_coroutine(probe.ask(request())).error().code == errc::stopping));
}

BOOST_AUTO_TEST_CASE(an_alert_after_the_handshake_is_a_refusal)
{
    deploy::connection_watch watch;
    BOOST_TEST(!watch.verdict());
    watch.logged(greeted);
    watch.reported(alert, false);
    BOOST_TEST(watch.verdict()->verdict == "refused_tls");
    BOOST_TEST(watch.verdict()->evidence ==
               "the broker refused the certificate: sslv3 alert certificate unknown: SSL alert number 46");
}

BOOST_AUTO_TEST_CASE(an_alert_about_something_else_is_none)
{
    deploy::connection_watch watch;
    watch.reported(other_alert, false);
    BOOST_TEST(!watch.verdict());
    watch.reported("1/1 brokers are down", true);
    BOOST_TEST(watch.verdict()->verdict == "unreachable");
    BOOST_TEST(watch.verdict()->evidence.find("protocol version") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(being_cut_off_after_the_handshake_twice_is_a_refusal)
{
    deploy::connection_watch watch;
    watch.logged(greeted);
    watch.logged(cut_off);
    watch.reported("ssl://b:9093/bootstrap: Disconnected (after 5ms in state APIVERSION_QUERY)", false);
    watch.reported("1/1 brokers are down", true);
    BOOST_TEST(!watch.verdict());
    watch.logged(cut_off);
    BOOST_TEST(watch.verdict()->verdict == "refused_tls");
}

BOOST_AUTO_TEST_CASE(once_answered_only_the_answers_count)
{
    deploy::connection_watch watch;
    watch.logged(up);
    watch.reported(alert, false);
    watch.reported("1/1 brokers are down", true);
    BOOST_TEST(!watch.verdict());
}

BOOST_AUTO_TEST_CASE(distrust_of_the_broker_is_no_refusal_of_ours)
{
    deploy::connection_watch watch;
    watch.reported(
        "ssl://b:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify "
        "failed: "
        "broker certificate could not be verified (after 8ms in state SSL_HANDSHAKE)",
        false);
    BOOST_TEST(watch.verdict()->verdict == "unreachable");
    BOOST_TEST(watch.verdict()->evidence.find("broker_ca_file") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
