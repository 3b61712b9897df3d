#include "agent/deploy/hooks.hpp"
#include "agent/disk/directory.hpp"
#include "agent/io/process.hpp"
#include "tests/support/recording_process.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <unistd.h>

namespace {

using argv = std::vector<std::string>;
using policy::errc;

policy::hook command(argv words)
{
    return {.what = policy::hook::kind::command, .argv = std::move(words), .unit = {}};
}

policy::hook restart(std::string unit)
{
    return {.what = policy::hook::kind::restart, .argv = {}, .unit = std::move(unit)};
}

policy::hook reload(std::string unit)
{
    return {.what = policy::hook::kind::reload, .argv = {}, .unit = std::move(unit)};
}

deploy::hook_run run_of(std::vector<policy::hook> hooks)
{
    return {.name = {"logs", "siem"},
            .hooks = std::move(hooks),
            .directory = "/etc/siem/tls",
            .generation = "9f3c2a1b",
            .not_after = policy::instant(std::chrono::seconds(1'800'000'000)),
            .topic = "logs-orion-123",
            .consumer_group = "siem-group",
            .reason = "due"};
}

struct fixture {
    support::recording_process process;
    deploy::hooks_runner hooks{process, "/usr/bin/systemctl", false};

    policy::result<void> run(std::vector<policy::hook> list)
    {
        return support::run_coroutine(hooks.run(run_of(std::move(list))));
    }
};

struct ending {
    io::process_outcome outcome;
    std::string words;  // substring of the message
};

std::ostream& operator<<(std::ostream& out, const ending& e)
{
    return out << e.words;
}

io::process_outcome exited(int code, std::string out, std::string err)
{
    return {.exit_code = code, .out = std::move(out), .err = std::move(err)};
}

io::process_outcome shown(const std::string& state, const std::string& sub_state, const std::string& id)
{
    return exited(
        0, "Result=success\nActiveState=" + state + "\nSubState=" + sub_state + "\nInvocationID=" + id, "");
}

const std::vector<ending> endings = {
    {exited(3, "", ""),
     "logs/siem: hook failed (/bin/x: exit 3, no output). Retry now: exposure-agent deploy logs/siem"},
    {exited(1, "said on out\n", ""), "exit 1: said on out)."},
    {exited(1, "out", "first\nsecond\r\nlast\n\n"), "exit 1: first | second | last)."},
    {exited(1, "", "1\n2\n3\n4\n5\n6"), ": 3 | 4 | 5 | 6)."},
    {exited(1, "", "\x1b[31mred\x07"), ": \\x1b[31mred\\x07)."},
    {exited(1, "", std::string(5000, 'y') + "end"), std::string(597, 'y') + "end)."},
    {{.exit_code = -1, .signal = SIGSEGV, .out = {}, .err = {}}, "killed by signal 11 (Segmentation fault)"},
    {{.exit_code = -1, .signal = SIGTERM, .timed_out = true, .out = {}, .err = {}}, "timed out after 60 s"},
    {{.exit_code = 0, .timed_out = true, .out = {}, .err = {}}, "timed out after"},
};

BOOST_AUTO_TEST_SUITE(deploy_hooks)

BOOST_FIXTURE_TEST_CASE(units_and_commands_in_order, fixture)
{
    const auto unit = shown("active", "running", "1");
    process.outcomes = {unit, exited(0, "", ""), shown("active", "running", "2"),
                        unit, exited(0, "", ""), unit};
    BOOST_TEST(run({restart("vector.service"), reload("nginx.service"), command({"/bin/after", "--quietly"})})
                   .has_value());
    const argv show{"/usr/bin/systemctl", "show", "--property=ActiveState,SubState,Result,InvocationID"};
    auto show_vector = show;
    show_vector.push_back("vector.service");
    auto show_nginx = show;
    show_nginx.push_back("nginx.service");
    const std::vector<argv> expected = {show_vector,
                                        {"/usr/bin/systemctl", "try-restart", "vector.service"},
                                        show_vector,
                                        show_nginx,
                                        {"/usr/bin/systemctl", "try-reload-or-restart", "nginx.service"},
                                        show_nginx,
                                        {"/bin/after", "--quietly"}};
    BOOST_REQUIRE(process.requests.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        BOOST_TEST(process.requests[i].argv == expected[i], boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_unit_that_systemd_shows_as_failed_is_a_failed_hook, fixture)
{
    process.outcomes = {shown("active", "running", "1"), exited(0, "", ""), shown("failed", "failed", "2")};
    const auto done = run({restart("vector.service"), command({"/bin/after"})});
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST((done.error().kind == policy::retry::later));
    BOOST_TEST(done.error().context.starts_with("logs/siem: hook 1 of 2 failed (restart vector.service: "
                                                "it is in state failed"),
               done.error().context);
    BOOST_TEST(process.requests.size() == 3u);
}

BOOST_FIXTURE_TEST_CASE(a_systemd_that_says_nothing_confirms_nothing, fixture)
{
    process.outcomes = {exited(1, "", "no bus"), exited(0, "", ""), exited(1, "", "no bus")};
    BOOST_TEST(!run({restart("vector.service")}).has_value());
    process.outcomes = {exited(1, "", "no bus"), exited(0, "", ""), shown("active", "running", "1")};
    BOOST_TEST(run({restart("vector.service")}).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_stop_while_systemd_is_asked_is_no_failed_hook, fixture)
{
    const policy::failure stopping{.code = errc::stopping, .context = "told to stop"};
    process.outcomes = {stopping};
    BOOST_TEST((run({restart("vector.service")}).error().code == errc::stopping));
    process.outcomes = {shown("active", "running", "1"), exited(0, "", ""), stopping};
    BOOST_TEST((run({restart("vector.service")}).error().code == errc::stopping));
}

BOOST_FIXTURE_TEST_CASE(the_environment_is_the_contract_and_nothing_else, fixture)
{
    auto hook = command({"/bin/x"});
    hook.timeout = std::chrono::seconds(7);
    BOOST_TEST(run({hook}).has_value());
    const std::map<std::string, std::string> expected = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                                                         {"EXPOSURE", "logs"},
                                                         {"EXPOSURE_USER", "siem"},
                                                         {"EXPOSURE_TOPIC", "logs-orion-123"},
                                                         {"EXPOSURE_CONSUMER_GROUP", "siem-group"},
                                                         {"EXPOSURE_DIRECTORY", "/etc/siem/tls"},
                                                         {"EXPOSURE_GENERATION", "9f3c2a1b"},
                                                         {"EXPOSURE_NOT_AFTER", "2027-01-15T08:00:00Z"},
                                                         {"EXPOSURE_REASON", "due"}};
    BOOST_TEST((process.requests.at(0).environment == expected));
    BOOST_TEST(process.requests[0].timeout.count() == 7000);
    BOOST_TEST(process.requests[0].input.empty());
}

BOOST_FIXTURE_TEST_CASE(a_credential_has_no_expiry, fixture)
{
    auto of_credential = run_of({command({"/bin/x"})});
    of_credential.not_after.reset();
    BOOST_TEST(support::run_coroutine(hooks.run(std::move(of_credential))).has_value());
    BOOST_TEST(process.requests.at(0).environment.at("EXPOSURE_NOT_AFTER") == "");
}

BOOST_FIXTURE_TEST_CASE(no_hooks_are_done_at_once, fixture)
{
    BOOST_TEST(run({}).has_value());
    BOOST_TEST(process.requests.empty());
}

BOOST_FIXTURE_TEST_CASE(the_first_failure_ends_the_run, fixture)
{
    process.outcomes = {exited(0, "", ""), exited(2, "", "no")};
    const auto done = run({command({"/bin/a"}), command({"/bin/b"}), command({"/bin/c"})});
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST(process.requests.size() == 2u);
    BOOST_TEST(done.error().context.starts_with("logs/siem: hook 2 of 3 failed (/bin/b: exit 2"));
    BOOST_TEST(done.error().context.ends_with(". Retry now: exposure-agent deploy logs/siem"));
}

BOOST_DATA_TEST_CASE_F(fixture, how_a_hook_ended_is_told, endings)
{
    process.outcomes = {sample.outcome};
    const auto done = run({command({"/bin/x", "argument-that-is-not-shown"})});
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST((done.error().kind == policy::retry::later));
    BOOST_TEST(done.error().context.find(sample.words) != std::string::npos, done.error().context);
    BOOST_TEST(done.error().context.find("not-shown") == std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(what_cannot_start_is_told, fixture)
{
    process.outcomes = {
        policy::failure{.code = errc::hook_failed, .context = "/bin/x: No such file or directory"}};
    const auto done = run({command({"/bin/x"})});
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST(done.error().context == "logs/siem: hook /bin/x: /bin/x: No such file or directory");
}

BOOST_FIXTURE_TEST_CASE(a_stop_is_no_failed_hook, fixture)
{
    process.outcomes = {policy::failure{.code = errc::stopping, .context = "told to stop"}};
    BOOST_TEST((run({command({"/bin/x"})}).error().code == errc::stopping));
}

BOOST_FIXTURE_TEST_CASE(an_option_is_no_unit_and_a_word_no_program, fixture)
{
    for (const auto& hook :
         {restart("--version"), restart(""), reload("-H host"), command({"relative"}), command({})}) {
        const auto done = run({hook});
        BOOST_REQUIRE(!done.has_value());
        BOOST_TEST((done.error().code == errc::config));
    }
    BOOST_TEST(process.requests.empty());
}

BOOST_AUTO_TEST_CASE(a_loud_program_has_the_last_word)
{
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    io::process_posix process(stop);
    deploy::hooks_runner hooks(process);
    const auto done =
        support::run_coroutine(context, hooks.run(run_of({command({"/bin/sh", "-c",
                                                                   "head -c 9000000 /dev/zero >&2; echo >&2; "
                                                                   "echo $EXPOSURE >&2; exit 3"})})));
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST(done.error().context.find(": exit 3: ") != std::string::npos);
    BOOST_TEST(done.error().context.find(" | logs). Retry now: ") != std::string::npos);
    BOOST_TEST(done.error().context.size() < 4000u);
}

struct privileged_fixture {
    test_support::temporary_directory temporary;
    boost::asio::io_context context;
    io::stop_event stop{context.get_executor()};
    io::process_posix process{stop};
    deploy::hooks_runner hooks{process, "/usr/bin/systemctl", true};

    std::filesystem::path put(const std::string& name, const std::string& text, unsigned mode = 0755) const
    {
        const auto path = temporary.path() / name;
        std::ofstream(path) << text;
        std::filesystem::permissions(path, std::filesystem::perms(mode));
        return path;
    }

    std::string refused(const std::filesystem::path& program)
    {
        const auto done = support::run_coroutine(context, hooks.run(run_of({command({program.string()})})));
        return done ? "" : done.error().context;
    }
};

BOOST_FIXTURE_TEST_CASE(root_runs_only_what_root_alone_can_change, privileged_fixture)
{
    namespace fs = std::filesystem;
    const auto good = put("good", "#!/bin/sh\nexit 0\n");
    BOOST_TEST(refused(good) == "");
    BOOST_TEST(refused("/bin/true") == "");
    fs::create_symlink(good, temporary.path() / "link");
    BOOST_TEST(refused(temporary.path() / "link") == "");

    const auto says = [&](const fs::path& program, const std::string& words) {
        const auto sentence = refused(program);
        BOOST_TEST(sentence.find("hook not run") != std::string::npos, sentence);
        BOOST_TEST(sentence.find(words) != std::string::npos, sentence);
    };
    says(temporary.path() / "missing", "does not exist");
    says(temporary.path(), "not a program");
    says(put("loose", "#!/bin/sh\n", 0777), "is writable by users other than its owner");
    fs::create_directory(temporary.path() / "open");
    fs::permissions(temporary.path() / "open", fs::perms(0777));
    says(put("open/hook", "#!/bin/sh\n"), "is world-writable");
    fs::permissions(temporary.path() / "open", fs::perms(01777));
    BOOST_TEST(refused(put("open/hook", "#!/bin/sh\n")) == "");
    if (::geteuid() != 0) return;
    fs::create_directory(temporary.path() / "theirs");
    const auto inside = put("theirs/hook", "#!/bin/sh\n");
    BOOST_REQUIRE(::chown((temporary.path() / "theirs").c_str(), 65534, 65534) == 0);
    says(inside, "theirs belongs to user nobody");
    BOOST_REQUIRE(::lchown((temporary.path() / "link").c_str(), 65534, 65534) == 0);
    says(temporary.path() / "link", "is a link of user nobody");
    const auto foreign = put("foreign", "#!/bin/sh\n");
    BOOST_REQUIRE(::chown(foreign.c_str(), 65534, 65534) == 0);
    says(foreign, "belongs to user nobody");
}

BOOST_FIXTURE_TEST_CASE(a_checked_script_gets_its_arguments_and_environment, privileged_fixture)
{
    const auto out = temporary.path() / "out";
    const auto script = put(
        "hook", "#!/bin/sh\necho \"$1 $EXPOSURE_TOPIC $EXPOSURE_CONSUMER_GROUP\" >" + out.string() + "\n");
    auto run = run_of({command({script.string(), "--quietly"})});
    BOOST_REQUIRE(support::run_coroutine(context, hooks.run(run)));
    std::string line;
    std::ifstream text(out);
    std::getline(text, line);
    BOOST_TEST(line == "--quietly logs-orion-123 siem-group");
}

// The hook that runs is the file that was checked, even if its path now names another file.
BOOST_FIXTURE_TEST_CASE(the_checked_file_is_executed, privileged_fixture)
{
    const auto out = temporary.path() / "out";
    const auto script = put("hook", "#!/bin/sh\necho good >" + out.string() + "\n");
    const auto opened = disk::open_program(script);
    BOOST_REQUIRE(opened);
    std::filesystem::rename(put("evil", "#!/bin/sh\necho evil >" + out.string() + "\n"), script);
    io::process_request request{.argv = {script.string()}, .program = opened->get()};
    const auto outcome = support::run_coroutine(context, process.run(std::move(request)));
    BOOST_REQUIRE(outcome);
    BOOST_TEST(outcome->ok(), outcome->err);
    std::string line;
    std::ifstream text(out);
    std::getline(text, line);
    BOOST_TEST(line == "good");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
