#include "agent/deploy/spool.hpp"
#include "tests/support/run_coroutine.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using policy::errc;

deploy::spool_request request()
{
    return {.ticket = "00ff",
            .generation = "9f3c2a1b",
            .not_after = policy::instant(std::chrono::seconds(1'800'000'000)),
            .reason = "due"};
}

std::string text_of(const deploy::spool_request& r)
{
    return deploy::write_spool_request(r).value();
}

policy::hook command(std::string program)
{
    return {.what = policy::hook::kind::command, .argv = {std::move(program)}, .unit = {}};
}

// A hooks port that records its runs and fails for the users in `failing`.
class recording_hooks final : public deploy::hooks {
public:
    io::task<void> run(deploy::hook_run run) override
    {
        runs.push_back(run);
        if (const auto found = failing.find(run.name.user); found != failing.end()) co_return found->second;
        co_return policy::result<void>();
    }

    std::vector<deploy::hook_run> runs;
    std::map<std::string, policy::failure> failing;
};

struct spool_fixture {
    spool_fixture()
    {
        std::string pattern = (fs::temp_directory_path() / "spool-XXXXXX").string();
        base = ::mkdtemp(pattern.data());
        fs::permissions(base, fs::perms(0755));
        for (const auto* name : {"spool", "results"})
            fs::create_directory(base / name);
        fs::permissions(base / "spool", fs::perms(0770));
        fs::permissions(base / "results", fs::perms(0755));
    }
    ~spool_fixture() { fs::remove_all(base); }

    void put(const std::string& name, const std::string& text) const
    {
        std::ofstream(base / "spool" / name) << text;
    }

    bool spool_is_empty() const { return fs::is_empty(base / "spool"); }

    // results/ holds results only: discarded spool entries are not left there
    std::size_t answers() const
    {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(base / "results"), {}));
    }

    policy::result<deploy::drain_report> drain()
    {
        const auto reader = deploy::spool_reader::open(base);
        if (!reader) return reader.error();
        return support::run_coroutine(deploy::drain_spool(*reader, desired, hooks));
    }

    fs::path base;
    policy::desired_state desired = [] {
        policy::desired_user user{.name = "siem", .hooks = {command("/bin/true")}};
        user.output.directory = "/etc/siem/tls";
        policy::desired_user other{.name = "other", .hooks = {command("/bin/true")}};
        policy::desired_credential credential{.name = "bucket", .file = "/etc/backup/s3.env"};
        policy::desired_state state;
        state.exposures = {{.name = "logs", .users = {user, other}}};
        state.credentials = {credential};
        return state;
    }();
    recording_hooks hooks;
};

const std::vector<std::string> hostile_names = {"logs",
                                                "+",
                                                "logs+",
                                                "logs+siem+more",
                                                "logs+Siem",
                                                "logs+siem-",
                                                "logs+siem\n",
                                                "logs+si em",
                                                "logs+..",
                                                "..+siem",
                                                ".hidden",
                                                "logs+\xff\xfe",
                                                "logs+caf\xc3\xa9",
                                                "logs;reboot+siem",
                                                "$(reboot)+siem",
                                                "logs+" + std::string(250, 'a')};

const std::vector<std::string> hostile_contents = {
    "",
    "logs+siem",
    "[]",
    R"({"ticket":"00ff"})",
    R"({"ticket":"","generation":"9f","not_after":1,"reason":"due"})",
    R"({"ticket":"../x","generation":"9f","not_after":1,"reason":"due"})",
    R"({"ticket":"00ff","generation":"$(reboot) ","not_after":1,"reason":"due"})",
    R"({"ticket":"00ff","generation":"9f","not_after":"soon","reason":"due"})",
    R"({"ticket":"00ff","generation":"9f","not_after":1,"reason":"a\nLD_PRELOAD=/x"})",
    R"({"ticket":"00ff","generation":"9f","not_after":1,"reason":"due"} x)",
    std::string(1 << 20, 'a')};

BOOST_AUTO_TEST_SUITE(deploy_spool)

BOOST_AUTO_TEST_CASE(names_both_ways)
{
    for (const auto& name : {policy::user_name{"logs", "siem-forwarder"},
                             policy::user_name{"", "backup-bucket"}, policy::user_name{"-a", "0"}}) {
        const auto entry = deploy::spool_entry_name(name);
        BOOST_REQUIRE(entry.has_value());
        BOOST_TEST((deploy::parse_spool_entry_name(*entry) == name));
    }
    BOOST_TEST(*deploy::spool_entry_name({"logs", "siem-forwarder"}) == "logs+siem-forwarder");
    BOOST_TEST(!deploy::spool_entry_name({"logs", std::string(180, 'a')}));
}

BOOST_DATA_TEST_CASE(names_refused, hostile_names)
{
    BOOST_TEST(!deploy::parse_spool_entry_name(sample));
}

BOOST_AUTO_TEST_CASE(texts_both_ways)
{
    BOOST_TEST((deploy::read_spool_request(text_of(request())).value() == request()));
    auto of_credential = request();
    of_credential.not_after.reset();
    BOOST_TEST((deploy::read_spool_request(text_of(of_credential)).value() == of_credential));
    for (const auto& answer : {deploy::spool_answer{.ticket = "00ff", .failure = {}},
                               deploy::spool_answer{.ticket = "00ff", .failure = "hook 1 failed"}})
        BOOST_TEST((deploy::read_spool_answer(deploy::write_spool_answer(answer)).value() == answer));
}

BOOST_AUTO_TEST_CASE(what_is_no_word_is_not_written)
{
    auto wrong = request();
    wrong.reason = "due; reboot";
    BOOST_TEST((deploy::write_spool_request(wrong).error().code == errc::internal));
}

BOOST_DATA_TEST_CASE(contents_refused, hostile_contents)
{
    BOOST_TEST(!deploy::read_spool_request(sample).has_value());
}

BOOST_FIXTURE_TEST_CASE(hooks_come_from_the_configuration, spool_fixture)
{
    put("logs+siem", text_of(request()));
    const auto report = drain();
    BOOST_REQUIRE(report.has_value());
    BOOST_TEST((report->done == std::vector{policy::user_name{"logs", "siem"}}));
    BOOST_REQUIRE(hooks.runs.size() == 1u);
    BOOST_TEST((hooks.runs[0].hooks == desired.exposures[0].users[0].hooks));
    BOOST_TEST(hooks.runs[0].directory == "/etc/siem/tls");
    BOOST_TEST(hooks.runs[0].generation == "9f3c2a1b");
    BOOST_TEST(hooks.runs[0].reason == "due");
    BOOST_TEST(spool_is_empty());
    BOOST_TEST(answers() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_credential_is_found_by_its_name, spool_fixture)
{
    put("+bucket", text_of(request()));
    BOOST_TEST(drain()->done.size() == 1u);
    BOOST_TEST(hooks.runs.at(0).directory == "/etc/backup");
}

BOOST_FIXTURE_TEST_CASE(a_failure_is_answered_and_the_others_go_on, spool_fixture)
{
    hooks.failing["other"] = {.code = errc::hook_failed, .context = "hook 1 failed"};
    put("logs+other", text_of(request()));
    put("logs+siem", text_of(request()));
    const auto report = drain();
    BOOST_TEST(report->failed == std::vector<std::string>{"hook 1 failed"}, boost::test_tools::per_element());
    BOOST_TEST((report->done == std::vector{policy::user_name{"logs", "siem"}}));
    BOOST_TEST(answers() == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_stop_ends_the_work_without_an_answer, spool_fixture)
{
    hooks.failing["siem"] = {.code = errc::stopping, .context = "told to stop"};
    put("logs+siem", text_of(request()));
    BOOST_TEST((drain().error().code == errc::stopping));
    BOOST_TEST(answers() == 0u);
}

BOOST_DATA_TEST_CASE_F(spool_fixture, a_hostile_name_is_thrown_away, hostile_names)
{
    put(sample, text_of(request()));
    const auto report = drain();
    BOOST_REQUIRE(report.has_value());
    BOOST_TEST(report->thrown_away.size() == 1u);
    BOOST_TEST(hooks.runs.empty());
    BOOST_TEST(spool_is_empty());
    BOOST_TEST(answers() == 0u);
}

BOOST_DATA_TEST_CASE_F(spool_fixture, a_hostile_content_is_thrown_away, hostile_contents)
{
    put("logs+siem", sample);
    BOOST_TEST(drain()->thrown_away.size() == 1u);
    BOOST_TEST(hooks.runs.empty());
    BOOST_TEST(spool_is_empty());
    BOOST_TEST(answers() == 0u);
}

BOOST_FIXTURE_TEST_CASE(an_unknown_user_gets_no_answer, spool_fixture)
{
    put("logs+nobody", text_of(request()));
    put("nothing+siem", text_of(request()));
    put("+nothing", text_of(request()));
    BOOST_TEST(drain()->thrown_away.size() == 3u);
    BOOST_TEST(answers() == 0u);
}

BOOST_FIXTURE_TEST_CASE(links_pipes_and_directories_are_thrown_away, spool_fixture)
{
    const auto victim = base / "victim";
    std::ofstream(victim) << text_of(request());
    fs::create_directory(base / "tree");
    std::ofstream(base / "tree" / "kept") << "kept";

    fs::create_symlink(victim, base / "spool/logs+siem");
    fs::create_symlink(base / "tree", base / "spool/logs+other");
    fs::create_symlink("/nowhere", base / "spool/+bucket");
    BOOST_REQUIRE(::mkfifo((base / "spool/health+pipe").c_str(), 0666) == 0);
    fs::create_directories(base / "spool/logs+directory/below/deeper");
    fs::create_symlink(base / "tree", base / "spool/logs+directory/link");

    const auto report = drain();
    BOOST_REQUIRE(report.has_value());
    BOOST_TEST(report->thrown_away.size() == 5u);
    BOOST_TEST(hooks.runs.empty());
    BOOST_TEST(spool_is_empty());
    BOOST_TEST(answers() == 0u);
    BOOST_TEST(fs::file_size(victim) > 0u);
    BOOST_TEST(fs::exists(base / "tree" / "kept"));
}

BOOST_FIXTURE_TEST_CASE(thousands_of_hostile_entries_are_told_in_few_words, spool_fixture)
{
    for (int i = 0; i < 3000; ++i)
        put("logs;" + std::to_string(i), "");
    put("logs+siem", text_of(request()));
    const auto report = drain();
    BOOST_TEST(report->done.size() == 1u);
    BOOST_TEST(report->thrown_away.size() == 21u);
    BOOST_TEST(spool_is_empty());
}

BOOST_FIXTURE_TEST_CASE(what_is_still_being_written_is_left_alone, spool_fixture)
{
    put(".logs+siem.exposure-agent", "{");
    BOOST_TEST((*drain() == deploy::drain_report{}));
    BOOST_TEST(!spool_is_empty());
}

BOOST_FIXTURE_TEST_CASE(a_link_in_place_of_an_answer_is_not_followed, spool_fixture)
{
    // only root could create this link; it must not be followed even so
    const auto victim = base / "victim";
    std::ofstream(victim) << "precious";
    fs::create_symlink(victim, base / "results/logs+siem");
    put("logs+siem", text_of(request()));
    static_cast<void>(drain());
    BOOST_TEST(fs::file_size(victim) == 8u);
}

BOOST_FIXTURE_TEST_CASE(directories_that_others_may_change_are_refused, spool_fixture)
{
    for (const auto& path : {base, base / "results"}) {
        fs::permissions(path, fs::perms(0775));
        BOOST_TEST((drain().error().code == errc::foreign_file));
        fs::permissions(path, fs::perms(0755));
    }
    fs::rename(base / "spool", base / "elsewhere");
    fs::create_directory_symlink(base / "elsewhere", base / "spool");
    BOOST_TEST((drain().error().code == errc::foreign_file));
}

// A directory nested deeper than any valid entry, or an unreadable one, does not block other entries.
BOOST_FIXTURE_TEST_CASE(an_entry_that_cannot_be_removed_is_put_aside, spool_fixture)
{
    auto deep = base / "spool/logs+deep";
    for (int level = 0; level < 30; ++level)
        deep /= "d";
    fs::create_directories(deep);
    fs::create_directories(base / "spool/logs+shut/below");
    fs::permissions(base / "spool/logs+shut/below", fs::perms::none);
    put("logs+siem", text_of(request()));
    const auto report = drain();
    BOOST_REQUIRE(report.has_value());
    BOOST_TEST(report->done.size() == 1u);
    BOOST_TEST(report->thrown_away.size() == 2u);
    BOOST_TEST(spool_is_empty());
    put("logs+other", text_of(request()));
    BOOST_TEST(drain()->done.size() == 1u);
    // let non-root users remove the fixture's directory
    for (const auto& entry : fs::recursive_directory_iterator(base))
        if (entry.is_directory()) fs::permissions(entry, fs::perms::owner_all, fs::perm_options::add);
}

// Runs the other side of the spool while the agent sleeps.
class shared_clock final : public io::clock {
public:
    policy::instant now() const override { return {}; }

    io::task<void> sleep_for(std::chrono::milliseconds duration) override
    {
        slept += duration;
        if (stopped) co_return policy::failure{.code = errc::stopping, .context = "told to stop"};
        if (meanwhile) meanwhile();
        co_return policy::result<void>();
    }

    std::function<void()> meanwhile;
    std::chrono::milliseconds slept{0};
    bool stopped = false;
};

struct both_sides : spool_fixture {
    policy::result<void> ask(std::vector<policy::hook> list)
    {
        deploy::spooled_hooks agent(clock, base);
        return support::run_coroutine(agent.run({.name = {"logs", "siem"},
                                                 .hooks = std::move(list),
                                                 .directory = "/etc/siem/tls",
                                                 .generation = "9f3c2a1b",
                                                 .not_after = request().not_after,
                                                 .reason = "due"}));
    }

    shared_clock clock;
};

BOOST_FIXTURE_TEST_CASE(what_the_agent_asks_for_the_helper_does, both_sides)
{
    clock.meanwhile = [&] { BOOST_TEST(drain()->done.size() == 1u); };
    BOOST_TEST(ask({command("/bin/true")}).has_value());
    BOOST_TEST(hooks.runs.at(0).generation == "9f3c2a1b");
    BOOST_TEST((hooks.runs[0].not_after == request().not_after));
}

BOOST_FIXTURE_TEST_CASE(the_helper_s_failure_reaches_the_agent, both_sides)
{
    hooks.failing["siem"] = {.code = errc::hook_failed,
                             .context = "logs/siem: hook 1 of 1 ended with exit code 3"};
    clock.meanwhile = [&] { static_cast<void>(drain()); };
    const auto done = ask({command("/bin/true")});
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST(done.error().context == "logs/siem: hook 1 of 1 ended with exit code 3");
}

BOOST_FIXTURE_TEST_CASE(an_old_answer_is_none, both_sides)
{
    put("logs+siem", text_of(request()));
    BOOST_TEST(drain()->done.size() == 1u);
    int looks = 0;
    clock.meanwhile = [&] {
        if (++looks == 3) static_cast<void>(drain());
    };
    BOOST_TEST(ask({command("/bin/true")}).has_value());
    BOOST_TEST(looks == 3);
}

BOOST_FIXTURE_TEST_CASE(a_stop_ends_the_waiting, both_sides)
{
    clock.stopped = true;
    BOOST_TEST((ask({command("/bin/true")}).error().code == errc::stopping));
}

BOOST_FIXTURE_TEST_CASE(nothing_is_asked_without_hooks, both_sides)
{
    BOOST_TEST(ask({}).has_value());
    BOOST_TEST(spool_is_empty());
}

BOOST_FIXTURE_TEST_CASE(without_a_helper_the_entry_stays_and_the_sentence_helps, both_sides)
{
    const auto done = ask({command("/bin/true")});
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST(done.error().context.find("exposure-agent-deploy.path") != std::string::npos);
    BOOST_TEST(fs::exists(base / "spool/logs+siem"));
    BOOST_TEST((fs::status(base / "spool/logs+siem").permissions() == fs::perms(0644)));
    BOOST_TEST(clock.slept.count() >= 180'000);  // the hook's timeout of 60 s plus two minutes
    BOOST_TEST(clock.slept.count() < 182'000);
}

BOOST_FIXTURE_TEST_CASE(without_a_spool_the_failure_is_at_once, both_sides)
{
    fs::remove(base / "spool");
    const auto done = ask({command("/bin/true")});
    BOOST_TEST((done.error().code == errc::hook_failed));
    BOOST_TEST(clock.slept.count() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
