#include "agent/service/control.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>

using namespace std::chrono_literals;
namespace verb = service::verb;

namespace {

// A daemon's socket, and what it was asked last.
struct control_socket {
    test_support::temporary_directory directory;
    disk::paths where{directory.path()};
    boost::asio::io_context context{1};
    io::stop_event stop{context.get_executor()};
    service::task_group group{context.get_executor(), stop};
    std::optional<service::verb_request> asked;
    std::optional<std::string> refused;
    service::verb_answer answer;
    policy::result<std::string> token = std::string("not a real one");
    service::web_handler handler = service::control_handler(
        {.perform = [this](service::verb_request request,
                           std::function<bool()>) { return perform(std::move(request)); },
         .access_token = [this](std::optional<crypto::secret> r) { return give_token(std::move(r)); },
         .show = {}});
    service::web_server server{group, "control", handler};

    control_socket() { BOOST_REQUIRE(server.listen_unix(where.control_socket(), 0600, true)); }
    ~control_socket()
    {
        stop.request();
        server.close();
        context.restart();
        context.run();
    }

    io::awaitable<service::verb_answer> perform(service::verb_request request)
    {
        asked = std::move(request);
        co_return answer;
    }
    io::task<crypto::secret> give_token(std::optional<crypto::secret> given)
    {
        refused = given ? std::optional(std::string(given->view())) : std::nullopt;
        if (!token) co_return token.error();
        co_return crypto::secret(std::string_view(*token));
    }

    // By the client's side, as the daemon gets it.
    template <class Request>
    const Request& ask(Request request)
    {
        asked.reset();
        const service::verb_request sent(std::move(request));
        const auto got = support::run_coroutine(context, service::ask_daemon(where, sent, 5s));
        BOOST_REQUIRE(got);
        BOOST_REQUIRE(got->has_value());
        BOOST_REQUIRE(asked);
        return std::get<Request>(*asked);
    }

    service::web_answer post(const std::string& target, const std::string& body)
    {
        return support::run_coroutine(context, handler({.method = "POST", .target = target, .body = body}));
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(service_control)

BOOST_AUTO_TEST_CASE(a_verb_arrives_as_it_was_asked)
{
    control_socket daemon;
    verb::rotate rotate{.retire_now = true};
    rotate.names = {{"logs", "one"}, {"logs", "two"}};
    rotate.timeout = 90s;
    rotate.by = "root";
    const auto& rotated = daemon.ask(rotate);
    BOOST_TEST((rotated.names == rotate.names));
    BOOST_TEST((rotated.timeout == 90s));
    BOOST_TEST(rotated.retire_now);
    BOOST_TEST((rotated.from() == policy::origin{.actor = policy::actor::person, .by = "root"}));

    verb::reconcile scheduled{.accept_loss = true};
    scheduled.scheduled = true;
    const auto& reconciled = daemon.ask(scheduled);
    BOOST_TEST(reconciled.accept_loss);
    BOOST_TEST(reconciled.names.empty());
    BOOST_TEST(!reconciled.timeout);
    BOOST_TEST((reconciled.from() == policy::by_schedule));

    BOOST_TEST(daemon.ask(verb::deploy{.force = true}).force);
    BOOST_TEST(daemon.ask(verb::decommission{.at_once = true}).at_once);
    BOOST_TEST(daemon.ask(verb::decommission{.undo = true}).undo);
    daemon.ask(verb::rollback{});
    daemon.ask(verb::logout{});
    daemon.ask(verb::notify{});

    verb::import pair;
    pair.names = {{"logs", "one"}};
    pair.key = crypto::secret("key");
    pair.certificate = "chain";
    pair.remote_id = "7";
    pair.retire = true;
    const auto& imported = daemon.ask(std::move(pair));
    BOOST_TEST(imported.key.view() == "key");
    BOOST_TEST(imported.certificate == "chain");
    BOOST_TEST(imported.remote_id == "7");
    BOOST_TEST(imported.retire);
    BOOST_TEST(imported.names.begin()->text() == "logs/one");
}

// An empty verifier is a login that began without PKCE; none is no begun login.
BOOST_AUTO_TEST_CASE(a_login_arrives_as_it_was_asked)
{
    control_socket daemon;
    verb::login beginning;
    beginning.begin = true;
    beginning.verifier = crypto::secret();
    beginning.state = "s";
    const auto& begun = daemon.ask(std::move(beginning));
    BOOST_TEST(begun.begin);
    BOOST_TEST(begun.verifier.has_value());
    BOOST_TEST(begun.state == "s");
    verb::login with_code;
    with_code.code = crypto::secret("c");
    with_code.force = true;
    const auto& code = daemon.ask(std::move(with_code));
    BOOST_TEST(!code.verifier.has_value());
    BOOST_TEST(!code.refresh_token.has_value());
    BOOST_TEST(code.code.view() == "c");
    BOOST_TEST(code.force);
    verb::login with_seed;
    with_seed.refresh_token = crypto::secret("r");
    const auto& seed = daemon.ask(std::move(with_seed));
    BOOST_TEST((seed.refresh_token && seed.refresh_token->view() == "r"));
}

BOOST_AUTO_TEST_CASE(an_answer_arrives_as_it_was_given)
{
    control_socket daemon;
    daemon.answer = {.schema = "exposure-agent.reconcile/v1",
                     .exit = 1,
                     .users = {{{"logs", "one", false, "expired"}}},
                     .messages = {"logs/one: expired"}};
    const service::verb_request reconcile = verb::reconcile{};
    const auto got = support::run_coroutine(daemon.context, service::ask_daemon(daemon.where, reconcile, 5s));
    BOOST_REQUIRE((got && *got));
    BOOST_TEST((*got)->exit == 1);
    BOOST_TEST((*got)->messages == daemon.answer.messages, boost::test_tools::per_element());
    const auto printed = service::to_json(**got);
    BOOST_TEST(boost::json::serialize(printed) ==
               "{\"schema\":\"exposure-agent.reconcile/v1\",\"exit\":1,\"users\":[{\"exposure\":\"logs\","
               "\"name\":\"one\",\"converged\":false,\"sentence\":\"expired\"}],"
               "\"messages\":[\"logs/one: expired\"]}");
}

BOOST_AUTO_TEST_CASE(no_daemon_runs)
{
    test_support::temporary_directory directory;
    boost::asio::io_context context{1};
    const service::verb_request ping = verb::ping{};
    const auto got =
        support::run_coroutine(context, service::ask_daemon(disk::paths(directory.path()), ping, 5s));
    BOOST_REQUIRE(got);
    BOOST_TEST(!got->has_value());
}

BOOST_AUTO_TEST_CASE(what_is_no_request_is_refused)
{
    control_socket daemon;
    BOOST_TEST(daemon.post("/v1/destroy", "{}").status == 404);
    BOOST_TEST(daemon.post("/v1/rotate", "[]").status == 400);
    BOOST_TEST(daemon.post("/v1/rotate", "{").status == 400);
    BOOST_TEST(daemon.post("/v1/rotate", R"({"names":[1]})").status == 400);
    BOOST_TEST(daemon.post("/v1/rotate", R"({"names":"logs/one"})").status == 400);
    BOOST_TEST(daemon.post("/v1/rotate", R"({"retire_now":"yes"})").status == 400);
    BOOST_TEST(!daemon.asked);
    BOOST_TEST(daemon.post("/v1/rotate", "").status == 200);
    BOOST_TEST(daemon.asked.has_value());
    BOOST_TEST(daemon.post("/v1/ping", "{}").status == 200);
}

BOOST_AUTO_TEST_CASE(an_access_token_or_why_there_is_none)
{
    control_socket daemon;
    service::daemon_tokens tokens(daemon.where);
    auto token = support::run_coroutine(daemon.context, tokens.current());
    BOOST_REQUIRE(token);
    BOOST_TEST(token->view() == "not a real one");
    BOOST_TEST(!daemon.refused);
    token = support::run_coroutine(daemon.context, tokens.after_refusal(crypto::secret("an older one")));
    BOOST_REQUIRE(token);
    BOOST_TEST((daemon.refused == "an older one"));

    daemon.token = policy::failure{.code = policy::errc::login_required, .context = "not logged in"};
    token = support::run_coroutine(daemon.context, tokens.current());
    BOOST_REQUIRE(!token);
    BOOST_TEST((token.error().code == policy::errc::login_required));
    BOOST_TEST(token.error().context == "not logged in");
}

BOOST_AUTO_TEST_SUITE_END()
