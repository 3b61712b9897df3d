#include "agent/service/pages.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

// Notices shown on the status page and in the terminal.

namespace {

using namespace std::chrono_literals;
using support::policy_world;

BOOST_AUTO_TEST_SUITE(service_page)

service::status_view view_of(const policy_world& w)
{
    return service::view_of(w.desired, w.stored, {.state = platform::login_state::ok}, {}, w.now);
}

BOOST_AUTO_TEST_CASE(each_notice_has_the_command_that_helps)
{
    struct row {
        const char* sentence;  // message of the login
        const char* command;
    };
    const row rows[] = {
        {"Not logged in. Run: exposure-agent login", "exposure-agent login"},
        {"it expired. Run: exposure-agent login before that", "exposure-agent login"},
        {"look at it, then run: exposure-agent rotate logs/web; it waits", "exposure-agent rotate logs/web"},
        {"repeated, at once with `exposure-agent deploy logs/web`", "exposure-agent deploy logs/web"},
        {"run: exposure-agent takeover (if the other one is gone)", "exposure-agent takeover"},
        {"the server answered 503", "exposure-agent token"},
    };
    policy_world w;
    auto view = view_of(w);
    for (const auto& r : rows)
        BOOST_TEST_CONTEXT(r.sentence)
        {
            view.login.sentence = r.sentence;
            const auto all = service::notices(view, w.now);
            BOOST_TEST(all.size() == 1U);
            BOOST_TEST(all.front().command == r.command);
            BOOST_TEST(all.front().attention);
        }
}

BOOST_AUTO_TEST_CASE(what_waits_for_a_login_is_told_once)
{
    policy_world w;
    w.in_use("web");
    auto view = view_of(w);
    view.exposures = {{.name = "logs",
                       .last_error = "list instances: Not logged in. Run: exposure-agent login",
                       .needs_login = true}};
    BOOST_TEST(service::notices(view, w.now).size() == 1U);
    view.login.state = platform::login_state::required;
    const auto told = service::notices(view, w.now);
    BOOST_TEST(told.size() == 1U);
    BOOST_TEST(told.front().sentence == "Not logged in. Run: exposure-agent login");
}

BOOST_AUTO_TEST_CASE(what_a_person_is_told)
{
    policy_world w;
    w.in_use("web");
    w.superseded(2h, "web");
    BOOST_TEST(policy::tally_of(view_of(w).users).sentence() == "1 of 1 user up to date");
    const auto later = service::notices(view_of(w), w.now);
    BOOST_TEST(later.size() == 1U);
    BOOST_TEST(later.front().sentence == "logs/web: logs-orion-web-00000000 will be deleted in 22 h");
    BOOST_TEST(!later.front().attention);

    const auto quiet = service::status_page(view_of(w), nullptr, "1.0", w.now).body;
    BOOST_TEST(quiet.find("Nothing needs attention.") < quiet.find("<h2>In progress</h2>"));
    BOOST_TEST(quiet.find("<h2>In progress</h2>") < quiet.find("will be deleted in 22 h"));

    w.known().failure = w.fails("web");
    w.known().failure->sentence = "it is down";
    w.have("web").failure = w.known().failure;
    const auto told = service::notices(view_of(w), w.now);
    BOOST_TEST(told.front().sentence == "exposure logs: it is down; next retry in 60 s");
    BOOST_TEST(told.front().command == "exposure-agent doctor");
    BOOST_TEST(told.size() == 2U);  // reported once, not again for its user
}

BOOST_AUTO_TEST_CASE(the_page_is_one_document_and_shows_names_as_text)
{
    policy_world w;
    w.in_use("web");
    w.stored.owner = "<script>\"&'";
    auto view = view_of(w);
    view.login.sentence = "</style><script>\x1b[31m";
    const auto ahead = policy::forecast(w.desired, w.stored, w.now, w.now + 24h * 365);
    const auto page = service::status_page(view, &ahead, "1.0", w.now);
    BOOST_TEST(page.type == "text/html; charset=utf-8");
    BOOST_TEST(page.body.find("<script") == std::string::npos);
    BOOST_TEST(page.body.find("&lt;/style&gt;&lt;script&gt;") != std::string::npos);
    BOOST_TEST(page.body.find('\x1b') == std::string::npos);
    BOOST_TEST(page.body.find("&lt;script&gt;&quot;&amp;&#39;") != std::string::npos);
    BOOST_TEST(page.body.find("<svg") != std::string::npos);
    BOOST_TEST(page.security_policy.starts_with("default-src 'none'; style-src 'sha256-"));

    const auto without = service::status_page(view_of(policy_world()), nullptr, "1.0", w.now);
    BOOST_TEST(without.body.find("<svg") == std::string::npos);
    BOOST_TEST(without.body.find("Nothing needs attention.") != std::string::npos);
    BOOST_TEST(without.body.find("No users are configured.") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
