#include "agent/deploy/programs.hpp"

#include "agent/disk/directory.hpp"
#include "policy/limits.hpp"

#include <map>
#include <sys/stat.h>

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
    disk::descriptor program;  // the very file that was judged is executed
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
    if (outcome.timed_out) return "did not end in time";
    if (outcome.signal != 0) return "signal " + std::to_string(outcome.signal);
    return "exit " + std::to_string(outcome.exit_code);
}

}  // namespace deploy
