#include "agent/io/environment.hpp"
#include "agent/platform/access_token.hpp"
#include "policy/limits.hpp"
#include "tests/support/oauth_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using policy::errc;
using origin = policy::secret_source::origin;

struct fixture {
    fixture() { std::filesystem::create_directories(directory); }
    ~fixture() { std::filesystem::remove_all(directory); }

    std::string write(const std::string& name, const std::string& text) const
    {
        const auto path = directory / name;
        std::filesystem::remove(path);
        std::ofstream(path) << text;
        return path.string();
    }

    template <class T>
    T run(io::awaitable<T> work)
    {
        return support::run_coroutine(context, clock, std::move(work));
    }

    policy::result<crypto::secret> read(policy::secret_source source)
    {
        return run(reader.read(std::move(source), "identity.client_secret"));
    }

    policy::failure failure_of(policy::secret_source source)
    {
        const auto failed = read(std::move(source));
        BOOST_REQUIRE(!failed);
        BOOST_CHECK(failed.error().code == errc::token_source);
        BOOST_TEST(failed.error().context.find("identity.client_secret: ") == 0u);
        return failed.error();
    }

    static policy::secret_source file(std::string path)
    {
        return {.from = origin::file, .name = path, .argv = {}};
    }
    static policy::secret_source variable(std::string name)
    {
        return {.from = origin::environment, .name = name, .argv = {}};
    }
    static policy::secret_source credential(std::string name)
    {
        return {.from = origin::credential, .name = name, .argv = {}};
    }
    static policy::secret_source command()
    {
        return {.from = origin::command, .name = {}, .argv = {"sh", "-c", "x"}};
    }

    void printed(std::string out, int exit_code = 0, std::string err = {})
    {
        process.outcomes.push_back(io::process_outcome{.exit_code = exit_code, .out = out, .err = err});
    }

    std::filesystem::path directory =
        std::filesystem::temp_directory_path() / ("platform-sources-" + std::to_string(::getpid()));
    boost::asio::io_context context;
    support::manual_clock clock;
    support::recording_process process;
    platform::secret_reader reader{process,
                                   context.get_executor(),
                                   {{"TOKEN", "t0\n"},
                                    {"EMPTY", ""},
                                    {"PATH", "relative:/nowhere:/usr/bin:/bin"},
                                    {"CREDENTIALS_DIRECTORY", directory.string()}}};
};

BOOST_FIXTURE_TEST_SUITE(platform_secret_reader, fixture)

BOOST_AUTO_TEST_CASE(from_a_file)
{
    BOOST_TEST(read(file(write("secret", "opensesame"))).value().view() == "opensesame");
    BOOST_TEST(read(file(write("secret", "  opensesame\r\n\n"))).value().view() == "opensesame");
    BOOST_TEST(failure_of(file("/nowhere/secret")).context.find("No such file") != std::string::npos);
    BOOST_TEST(failure_of(file(write("secret", "\n"))).context.find("empty") != std::string::npos);
    BOOST_TEST(failure_of(file(directory.string())).context.find("not a file") != std::string::npos);
    const auto two = failure_of(file(write("secret", "opensesame\nsecond")));
    BOOST_TEST(two.context.find("more than one line") != std::string::npos);
    BOOST_TEST(two.context.find("opensesame") == std::string::npos);
    const std::string limit(policy::limits::token_bytes, 'x');
    BOOST_CHECK(read(file(write("secret", limit))));
    BOOST_TEST(failure_of(file(write("secret", limit + "x"))).context.find("too large") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(from_a_file_that_the_agent_may_not_read)
{
    const auto path = write("secret", "opensesame");
    std::filesystem::permissions(path, std::filesystem::perms::none);
    const auto own = ::geteuid();
    constexpr uid_t somebody = 65534;  // root may read everything
    if (own == 0) BOOST_REQUIRE(::seteuid(somebody) == 0);
    const auto failed = failure_of(file(path)).context;
    if (own == 0) BOOST_REQUIRE(::seteuid(own) == 0);
    BOOST_TEST(failed == "identity.client_secret: " + path + ": Permission denied; give " +
                             io::user_name(own == 0 ? somebody : own) + " read access to it");
}

BOOST_AUTO_TEST_CASE(from_the_environment)
{
    BOOST_TEST(read(variable("TOKEN")).value().view() == "t0");
    BOOST_TEST(failure_of(variable("MISSING")).context.find("MISSING is not set") != std::string::npos);
    BOOST_TEST(failure_of(variable("EMPTY")).context.find("empty") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(from_a_systemd_credential)
{
    write("client-secret", "opensesame\n");
    BOOST_TEST(read(credential("client-secret")).value().view() == "opensesame");
    failure_of(credential("missing"));
    platform::secret_reader bare(process, context.get_executor(), {});
    const auto none = run(bare.read(credential("client-secret"), "identity.client_secret"));
    BOOST_TEST(none.error().context.find("LoadCredential=") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(from_a_command)
{
    printed("opensesame\n");
    BOOST_TEST(read(command()).value().view() == "opensesame");
    const auto& request = process.requests.at(0);
    BOOST_TEST(request.argv.at(0).ends_with("/sh"));
    BOOST_TEST(request.argv.at(0).front() == '/');
    BOOST_TEST(request.argv.at(2) == "x");
    BOOST_TEST(request.environment.at("TOKEN") == "t0\n");
    BOOST_CHECK(request.timeout == 30s);
    BOOST_TEST(request.output_limit == policy::limits::token_bytes);

    printed("opensesame", 2, "permission\ndenied\x1b[1m");
    const auto failed = failure_of(command());
    BOOST_TEST(failed.context.find("failed with exit code 2: permission denied") != std::string::npos);
    BOOST_TEST(failed.context.find("opensesame") == std::string::npos);

    process.outcomes.push_back(io::process_outcome{.timed_out = true, .out = {}, .err = {}});
    BOOST_TEST(failure_of(command()).context.find("30 s") != std::string::npos);
    process.outcomes.push_back(io::process_outcome{.signal = 9, .out = {}, .err = {}});
    BOOST_TEST(failure_of(command()).context.find("signal 9") != std::string::npos);
    process.outcomes.push_back(io::process_outcome{.exit_code = 0, .out = "x", .err = {}, .truncated = true});
    BOOST_TEST(failure_of(command()).context.find("too much") != std::string::npos);
    printed("");
    failure_of(command());
    auto unknown = command();
    unknown.argv = {"no-such-program-at-all"};
    BOOST_TEST(failure_of(unknown).context.find("not in $PATH") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(platform_external_tokens, fixture)

BOOST_AUTO_TEST_CASE(a_file_is_read_again_when_it_changes)
{
    platform::external_tokens tokens(file(write("token", "t1\n")), reader, clock);
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
    write("other", "x");  // occupies the inode that the next write would otherwise reuse
    write("token", "t22");
    BOOST_TEST(run(tokens.current()).value().view() == "t22");
    BOOST_CHECK(tokens.status().state == platform::login_state::external);
    BOOST_TEST(tokens.status().sentence == "");
}

BOOST_AUTO_TEST_CASE(a_file_that_vanishes_leaves_the_token_in_use)
{
    platform::external_tokens tokens(file(write("token", "t1")), reader, clock);
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
    std::filesystem::remove(directory / "token");
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
    BOOST_CHECK(run(tokens.after_refusal(crypto::secret("t1"))).error().code == errc::token_source);
    BOOST_TEST(tokens.status().sentence.find("No such file") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_401_reads_the_source_again)
{
    platform::external_tokens tokens(variable("TOKEN"), reader, clock);
    BOOST_TEST(run(tokens.current()).value().view() == "t0");
    BOOST_TEST(run(tokens.after_refusal(crypto::secret("t0"))).value().view() == "t0");
    BOOST_TEST(run(tokens.after_refusal(crypto::secret("older"))).value().view() == "t0");
}

BOOST_AUTO_TEST_CASE(a_401_asks_the_command_again_with_back_off)
{
    platform::external_tokens tokens(command(), reader, clock);
    printed("t1");
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
    BOOST_TEST(process.requests.size() == 1u);
    printed("t1");
    printed("t1");
    printed("t2");
    BOOST_TEST(run(tokens.after_refusal(crypto::secret("t1"))).value().view() == "t2");  // within 5 s
    BOOST_TEST(process.requests.size() == 4u);
    BOOST_CHECK((clock.slept == std::vector<std::chrono::milliseconds>{1s, 2s}));
    BOOST_TEST(run(tokens.after_refusal(crypto::secret("t1"))).value().view() == "t2");
    BOOST_TEST(process.requests.size() == 4u);
}

BOOST_AUTO_TEST_CASE(readers_of_one_store_ask_it_again_at_different_moments)
{
    std::set<std::int64_t> pauses;
    for (int host = 0; host < 20; ++host) {
        platform::external_tokens tokens(command(), reader, clock, "web-" + std::to_string(host));
        for (const auto* token : {"t1", "t1", "t2"})
            printed(token);
        BOOST_TEST(run(tokens.current()).value().view() == "t1");
        clock.slept.clear();
        BOOST_TEST(run(tokens.after_refusal(crypto::secret("t1"))).value().view() == "t2");
        BOOST_TEST_REQUIRE(clock.slept.size() == 1u);
        const auto pause = clock.slept.front();
        BOOST_TEST((pause >= 1s && pause < 2s));
        pauses.insert(pause.count());
    }
    BOOST_TEST(pauses.size() > 10u);
}

BOOST_AUTO_TEST_CASE(a_command_that_gives_a_refused_token_is_not_run_for_every_call)
{
    platform::external_tokens tokens(command(), reader, clock);
    for (int i = 0; i < 5; ++i)
        printed("t1");
    for (int i = 0; i < 5; ++i)
        BOOST_TEST(run(tokens.after_refusal(crypto::secret("t1"))).value().view() == "t1");
    BOOST_TEST(process.requests.size() == 4u);
    clock.step(5s);
    BOOST_TEST(run(tokens.after_refusal(crypto::secret("t1"))).value().view() == "t1");
    BOOST_TEST(process.requests.size() == 5u);
}

BOOST_AUTO_TEST_CASE(a_command_is_run_once_for_all_that_wait)
{
    platform::external_tokens tokens(command(), reader, clock);
    printed("", 1, "sealed");
    int failed = 0;
    const auto all = [&]() -> io::awaitable<void> {
        co_await io::for_each_parallel(20, 20, [&](std::size_t) -> io::awaitable<void> {
            const auto token = co_await tokens.current();
            failed += token ? 0 : 1;
        });
    };
    run(all());
    BOOST_TEST(failed == 20);
    BOOST_TEST(process.requests.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_does_not_stop_the_command)
{
    platform::external_tokens tokens(command(), reader, clock);
    printed("", 1, "sealed");
    BOOST_CHECK(!run(tokens.current()));
    clock.step(-24h);
    clock.step(5s);
    printed("t1");
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
}

BOOST_AUTO_TEST_CASE(what_a_failing_command_says_shows_no_token)
{
    platform::external_tokens tokens(command(), reader, clock);
    printed("short-token");
    BOOST_TEST(run(tokens.current()).value().view() == "short-token");
    for (int i = 0; i < 4; ++i)
        printed("other-token\n", 1, "+ echo short-token other-token " + std::string(2000, '!'));
    const auto failed = run(tokens.after_refusal(crypto::secret("short-token"))).error();
    BOOST_TEST(failed.context.find("+ echo [hidden] [hidden]") != std::string::npos);
    BOOST_TEST(failed.context.size() < 500u);
}

BOOST_AUTO_TEST_CASE(a_command_runs_before_its_token_ends)
{
    platform::external_tokens tokens(command(), reader, clock);
    const auto end = clock.now() + 10min;
    const auto first = support::jwt(R"({"exp": )" + std::to_string(end.time_since_epoch().count()) + "}");
    printed(first);
    BOOST_TEST(run(tokens.current()).value().view() == first);
    BOOST_CHECK(tokens.status().access_token_expires_at == end);
    clock.step(8min);
    BOOST_TEST(run(tokens.current()).value().view() == first);
    clock.step(1min);
    printed("t2");
    BOOST_TEST(run(tokens.current()).value().view() == "t2");
    BOOST_TEST(process.requests.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_command_that_fails_is_not_run_for_every_call)
{
    platform::external_tokens tokens(command(), reader, clock);
    printed("", 1, "sealed");
    for (int i = 0; i < 5; ++i)
        BOOST_CHECK(run(tokens.current()).error().code == errc::token_source);
    BOOST_TEST(process.requests.size() == 1u);
    clock.step(5s);
    printed("t1");
    BOOST_TEST(run(tokens.current()).value().view() == "t1");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
