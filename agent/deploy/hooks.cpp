#include "agent/deploy/hooks.hpp"

#include "agent/disk/directory.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace deploy {
namespace {

constexpr auto command_time = std::chrono::seconds(30);
const std::map<std::string, std::string> command_environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};

bool is_program(const std::string& path)
{
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& name, const std::vector<std::string>& directories)
{
    for (const auto& directory : directories) {
        auto path = directory + "/" + name;
        if (is_program(path)) return path;
    }
    return directories.front() + "/" + name;
}

io::task<io::process_outcome> run_command(io::process& process, std::vector<std::string> argv,
                                          std::string input, bool check_program)
{
    if (argv.front().find('/') == std::string::npos)
        argv.front() = find_program(argv.front(), {"/usr/sbin", "/usr/bin", "/sbin", "/bin"});
    io::process_request request{.argv = std::move(argv),
                                .environment = command_environment,
                                .input = std::move(input),
                                .timeout = command_time,
                                .output_limit = policy::limits::hook_output_bytes};
    disk::descriptor program;  // execute the very file that was checked
    if (check_program) {
        auto opened = disk::open_program(request.argv.front());
        if (!opened) co_return policy::with_context("not run", opened.error());
        program = std::move(*opened);
        request.program = program.get();
    }
    co_return co_await process.run(std::move(request));
}

std::string ending_of(const io::process_outcome& outcome)
{
    if (outcome.timed_out) return "timed out";
    if (outcome.signal != 0) return "killed by signal " + std::to_string(outcome.signal);
    return "exit " + std::to_string(outcome.exit_code);
}

namespace {

using namespace std::chrono_literals;

constexpr auto time_to_answer = 10s;
constexpr std::array<std::pair<std::string_view, std::string policy::unit_facts::*>, 4> properties{{
    {"ActiveState", &policy::unit_facts::active_state},
    {"SubState", &policy::unit_facts::sub_state},
    {"Result", &policy::unit_facts::result},
    {"InvocationID", &policy::unit_facts::invocation_id},
}};

}  // namespace

policy::unit_facts parse_unit(std::string_view text)
{
    policy::unit_facts facts;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        for (const auto& [key, member] : properties)
            if (line.starts_with(key) && line.substr(key.size()).starts_with('='))
                facts.*member = io::printable(line.substr(key.size() + 1));
    }
    return facts;
}

io::task<policy::unit_facts> ask_unit(io::process& process, std::string systemctl, std::string unit)
{
    std::string wanted;
    for (const auto& [key, member] : properties)
        wanted += (wanted.empty() ? "" : ",") + std::string(key);
    io::process_request request{
        .argv = {std::move(systemctl), "show", "--property=" + wanted, std::move(unit)},
        .environment = {},
        .input = {},
        .timeout = time_to_answer};
    const auto outcome = co_await process.run(std::move(request));
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome || !outcome->ok()) co_return policy::unit_facts{};
    co_return parse_unit(outcome->out);
}

namespace {

constexpr std::size_t shown_lines = 4;  // of a failed hook's output
constexpr std::size_t shown_bytes = 600;

// The complete environment of a hook (contract section 6).
std::map<std::string, std::string> environment_of(const hook_run& run)
{
    return {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
            {"EXPOSURE", run.name.exposure},
            {"EXPOSURE_USER", run.name.user},
            {"EXPOSURE_TOPIC", run.topic},
            {"EXPOSURE_CONSUMER_GROUP", run.consumer_group},
            {"EXPOSURE_DIRECTORY", run.directory},
            {"EXPOSURE_GENERATION", run.generation},
            {"EXPOSURE_NOT_AFTER", run.not_after ? policy::format_utc(*run.not_after) : ""},
            {"EXPOSURE_REASON", run.reason}};
}

// The hook for display. The arguments of a command are left out: they may contain secrets.
std::string describe(const policy::hook& hook)
{
    switch (hook.what) {
        case policy::hook::kind::restart:
            return "restart " + hook.unit;
        case policy::hook::kind::reload:
            return "reload " + hook.unit;
        case policy::hook::kind::command:
            break;
    }
    return hook.argv.empty() ? "command" : hook.argv.front();
}

// The last lines of a hook's output, joined into one line and safe for a terminal.
std::string last_words(std::string_view text)
{
    if (text.size() > shown_bytes) text.remove_prefix(text.size() - shown_bytes);
    std::string words;
    for (std::size_t lines = 0; lines < shown_lines && !text.empty();) {
        const auto end = text.find_last_not_of("\r\n");
        if (end == std::string_view::npos) break;
        text = text.substr(0, end + 1);
        const auto start = text.find_last_of("\r\n") + 1;  // npos + 1 is 0
        words = io::printable(text.substr(start)) + (words.empty() ? "" : " | ") + words;
        text = text.substr(0, start);
        ++lines;
    }
    return words;
}

std::string ending(const io::process_outcome& outcome, policy::duration timeout)
{
    if (outcome.timed_out) return ending_of(outcome) + " after " + policy::format_duration(timeout);
    if (outcome.signal != 0) return ending_of(outcome) + " (" + ::strsignal(outcome.signal) + ")";
    return ending_of(outcome);
}

policy::failure failed(const hook_run& run, std::size_t index, const std::string& how)
{
    const bool of_user = !run.name.exposure.empty();
    const std::string which =
        run.hooks.size() == 1 ? std::string()
                              : std::to_string(index + 1) + " of " + std::to_string(run.hooks.size()) + " ";
    return {.code = policy::errc::hook_failed,
            .context = subject_of(run.name) + ": hook " + which + "failed (" +
                       io::printable(describe(run.hooks[index])) + ": " + how +
                       "). Retry now: exposure-agent " +
                       (of_user ? "deploy " + run.name.text() : "reconcile"),
            .kind = policy::retry::later};
}

policy::failure not_run(const hook_run& run, const policy::failure& why)
{
    return {.code = policy::errc::hook_failed,
            .context = subject_of(run.name) + ": hook not run: " + why.context,
            .kind = policy::retry::later};
}

std::string ending_and_words(const io::process_outcome& outcome, policy::duration timeout)
{
    const auto words = last_words(outcome.err.empty() ? outcome.out : outcome.err);
    return ending(outcome, timeout) + (words.empty() ? ", no output" : ": " + words);
}

}  // namespace

std::string hooks_runner::find_systemctl()
{
    return find_program("systemctl", {"/usr/bin", "/bin"});
}

policy::result<io::process_request> hooks_runner::request_of(const policy::hook& hook,
                                                             const hook_run& run) const
{
    io::process_request request{.argv = hook.argv,
                                .environment = environment_of(run),
                                .input = {},
                                .timeout = hook.timeout,
                                .output_limit = policy::limits::hook_output_bytes};
    if (hook.what != policy::hook::kind::command) {
        const bool restart = hook.what == policy::hook::kind::restart;
        request.argv = {systemctl_, restart ? "try-restart" : "try-reload-or-restart", hook.unit};
    }
    // a unit name that starts with "-" would be taken as an option
    const bool usable =
        !request.argv.empty() && request.argv.front().starts_with('/') &&
        (hook.what == policy::hook::kind::command || !(hook.unit.empty() || hook.unit.starts_with('-')));
    if (usable) return request;
    return policy::failure{.code = policy::errc::config,
                           .context = subject_of(run.name) + ": hook " + io::printable(describe(hook)) +
                                      " is neither a unit nor an absolute path; correct it in the "
                                      "configuration",
                           .kind = policy::retry::after_change};
}

// systemctl returning 0 is not enough: the old user is deleted once the hooks have succeeded.
io::task<void> hooks_runner::run_one(const hook_run& run, std::size_t index)
{
    const auto& hook = run.hooks[index];
    const bool is_unit = hook.what != policy::hook::kind::command;
    auto request = request_of(hook, run);
    if (!request) co_return request.error();
    policy::result<policy::unit_facts> before = policy::unit_facts{};
    if (is_unit) before = co_await ask_unit(process_, systemctl_, hook.unit);
    if (!before) co_return before.error();

    disk::descriptor program;  // as root: execute the very file that was checked
    if (!is_unit && check_programs_) {
        auto opened = disk::open_program(hook.argv.front());
        if (!opened) co_return not_run(run, opened.error());
        program = std::move(*opened);
        request->program = program.get();
    }
    io::crash_point("hook.before");
    auto outcome = co_await process_.run(std::move(*request));
    io::crash_point("hook.after");
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome)
        co_return policy::with_context(subject_of(run.name) + ": hook " + describe(hook), outcome.error());
    if (!outcome->ok()) co_return failed(run, index, ending_and_words(*outcome, hook.timeout));
    if (!is_unit) co_return policy::result<void>();

    const auto after = co_await ask_unit(process_, systemctl_, hook.unit);
    if (!after) co_return after.error();
    const auto wrong = policy::not_served(*before, *after, hook.what == policy::hook::kind::restart);
    if (wrong) co_return failed(run, index, *wrong);
    co_return policy::result<void>();
}

// As root, runs no hook unless only root can change the programs of all of them.
io::task<void> hooks_runner::run(hook_run run)
{
    for (const auto& hook : run.hooks) {
        if (!check_programs_ || hook.what != policy::hook::kind::command || hook.argv.empty()) continue;
        if (auto opened = disk::open_program(hook.argv.front()); !opened)
            co_return not_run(run, opened.error());
    }
    for (std::size_t index = 0; index < run.hooks.size(); ++index)
        if (auto passed = co_await run_one(run, index); !passed) co_return passed.error();
    co_return policy::result<void>();
}

}  // namespace deploy
