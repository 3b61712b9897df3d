#include "agent/service/metrics.hpp"
#include "tests/agent/service_support.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

using namespace service_test;
using policy::action_kind;
using policy::reason;

namespace {

const policy::user_name one{"logs", "one"};

std::string text_of(const policy::stored_state& stored, const service::counters& counted = {},
                    platform::login_state login = platform::login_state::ok)
{
    const auto desired = two_users();
    return service::metrics_text(view_of(desired, stored, login), counted, "1.2.3", now);
}

bool has_line(const std::string& text, const std::string& line)
{
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

policy::action step(action_kind kind, reason why)
{
    return {.kind = kind, .name = one, .why = why};
}

const policy::result<void> passed;
const policy::result<void> failed = policy::failure{.code = policy::errc::unavailable, .context = "503"};

}  // namespace

BOOST_AUTO_TEST_SUITE(service_metrics)

BOOST_AUTO_TEST_CASE(certificates_are_seconds_since_1970)
{
    const auto stored = both_in_use();
    const auto text = text_of(stored);
    const auto expiry = std::to_string((now + 4800h).time_since_epoch().count());
    BOOST_TEST(has_line(text, "exposure_agent_build_info{version=\"1.2.3\"} 1"));
    BOOST_TEST(has_line(
        text,
        "exposure_agent_certificate_not_after_timestamp_seconds{exposure=\"logs\",user=\"one\"} " + expiry));
    BOOST_TEST(has_line(text, "exposure_agent_certificate_ready{exposure=\"logs\",user=\"two\"} 1"));
    BOOST_TEST(has_line(text, "exposure_agent_deploy_pending{exposure=\"logs\",user=\"one\"} 0"));
    BOOST_TEST(has_line(text, "exposure_agent_retiring_users{exposure=\"logs\",user=\"one\"} 0"));
    BOOST_TEST(has_line(text, "exposure_agent_login_required 0"));
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_zero)
{
    const auto text = text_of({.owner = "web-01"}, {}, platform::login_state::required);
    BOOST_TEST(has_line(
        text, "exposure_agent_certificate_not_after_timestamp_seconds{exposure=\"logs\",user=\"one\"} 0"));
    BOOST_TEST(has_line(text, "exposure_agent_certificate_ready{exposure=\"logs\",user=\"one\"} 0"));
    BOOST_TEST(has_line(text, "exposure_agent_login_required 1"));
    BOOST_TEST(has_line(text, "exposure_agent_access_token_expiry_timestamp_seconds 0"));
}

BOOST_AUTO_TEST_CASE(a_login_that_fails_shows_since_when)
{
    const auto stored = both_in_use();
    auto view = view_of(two_users(), stored);
    const auto line = [&] { return service::metrics_text(view, {}, "1.2.3", now); };
    BOOST_TEST(has_line(line(), "exposure_agent_login_failing_since_timestamp_seconds 0"));
    view.login.failing_since = now - 1h;
    const auto since = std::to_string((now - 1h).time_since_epoch().count());
    BOOST_TEST(has_line(line(), "exposure_agent_login_failing_since_timestamp_seconds " + since));
}

BOOST_AUTO_TEST_CASE(an_expired_certificate_is_not_ready_whatever_else_is_wrong)
{
    auto stored = both_in_use();
    auto& user = stored.users.at(one);
    user.generations.front().certificate->not_after = now;
    user.blocked = policy::verdict{.reason = "budget_spent", .sentence = "say rotate"};
    BOOST_TEST(
        has_line(text_of(stored), "exposure_agent_certificate_ready{exposure=\"logs\",user=\"one\"} 0"));
}

BOOST_AUTO_TEST_CASE(rotations_are_counted_once_each)
{
    service::counters counted;
    counted.count_step(step(action_kind::issue, reason::absent), passed);
    counted.count_step(step(action_kind::collect, reason::ready), passed);
    counted.count_step(step(action_kind::publish, reason::not_published), passed);
    counted.count_step(step(action_kind::publish, reason::output_damaged), passed);  // a repair
    counted.count_step(step(action_kind::deploy, reason::hooks_pending), failed);    // not a rotation
    counted.count_step(step(action_kind::issue, reason::rotation_due), failed);
    counted.count_step(step(action_kind::submit, reason::unanswered), failed);
    counted.count_step(step(action_kind::issue, reason::rotation_due),
                       policy::failure{.code = policy::errc::stopping, .context = "stopped"});
    const auto stored = both_in_use();
    const auto text = text_of(stored, counted);
    BOOST_TEST(has_line(
        text, "exposure_agent_rotations_total{exposure=\"logs\",user=\"one\",result=\"success\"} 1"));
    BOOST_TEST(has_line(
        text, "exposure_agent_rotations_total{exposure=\"logs\",user=\"one\",result=\"failure\"} 2"));
    BOOST_TEST(has_line(
        text, "exposure_agent_rotations_total{exposure=\"logs\",user=\"two\",result=\"success\"} 0"));
}

BOOST_AUTO_TEST_CASE(durations_are_cumulative)
{
    service::counters counted;
    counted.count_pass("logs", 50ms);  // on the bucket boundary: included
    counted.count_pass("logs", 200ms);
    counted.count_pass("logs", 1h);
    const auto stored = both_in_use();
    const auto text = text_of(stored, counted);
    const std::string bucket = "exposure_agent_reconcile_duration_seconds_bucket{exposure=\"logs\",le=";
    BOOST_TEST(has_line(text, bucket + "\"0.05\"} 1"));
    BOOST_TEST(has_line(text, bucket + "\"0.1\"} 1"));
    BOOST_TEST(has_line(text, bucket + "\"0.25\"} 2"));
    BOOST_TEST(has_line(text, bucket + "\"300\"} 2"));
    BOOST_TEST(has_line(text, bucket + "\"+Inf\"} 3"));
    BOOST_TEST(
        has_line(text, "exposure_agent_reconcile_duration_seconds_sum{exposure=\"logs\"} 3600.250000"));
    BOOST_TEST(has_line(text, "exposure_agent_reconcile_duration_seconds_count{exposure=\"logs\"} 3"));
}

BOOST_AUTO_TEST_CASE(what_left_the_file_is_dropped)
{
    service::counters counted;
    counted.count_pass("gone", 1s);
    counted.count_step({.kind = action_kind::issue, .name = {"gone", "x"}}, failed);
    const auto stored = both_in_use();
    const auto desired = two_users();
    counted.keep_only(view_of(desired, stored));
    BOOST_TEST(text_of(stored, counted).find("gone") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(labels_are_escaped)
{
    service::counters counted;
    counted.count_request("list_users", "a\"b\\c\nd");
    BOOST_TEST(has_line(
        text_of(both_in_use(), counted),
        "exposure_agent_platform_requests_total{operation=\"list_users\",status=\"a\\\"b\\\\c\\nd\"} 1"));
}

// The list shared by alert rules, dashboard and manual.
BOOST_AUTO_TEST_CASE(families_are_those_of_the_list)
{
    const auto stored = both_in_use();
    std::istringstream text(text_of(stored));
    std::set<std::string> families;
    for (std::string line; std::getline(text, line);)
        if (line.starts_with("# TYPE ")) families.insert(line.substr(7));
    std::ifstream list(SOURCE_DIRECTORY "/systemd/prometheus/metrics.txt");
    std::set<std::string> wanted;
    for (std::string line; std::getline(list, line);)
        if (!line.empty() && !line.starts_with('#')) wanted.insert(line);
    BOOST_TEST(!wanted.empty());
    BOOST_TEST(families == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(promtool_has_nothing_to_say, *boost::unit_test::precondition([](auto) {
                         return std::system("command -v promtool >/dev/null") == 0;
                     }))
{
    service::counters counted;
    counted.count_pass("logs", 1s);
    counted.count_request("list_users", "200");
    const auto stored = both_in_use();
    auto* pipe = ::popen("promtool check metrics 2>&1", "w");
    BOOST_REQUIRE(pipe);
    const auto text = text_of(stored, counted);
    BOOST_TEST(std::fwrite(text.data(), 1, text.size(), pipe) == text.size());
    BOOST_TEST(::pclose(pipe) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
