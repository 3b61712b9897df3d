#pragma once

#include "agent/io/async.hpp"
#include "agent/io/process.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/observed.hpp"

#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

// Programs that the agent runs by itself: found in fixed places, never by $PATH.

namespace deploy {

// The first of the directories that holds an executable file of that name, as a path; the path in the first
// directory when none does, so that starting it says what is missing. `directories` is not empty.
std::string find_program(const std::string& name, const std::vector<std::string>& directories);

// Runs a command of the configuration that gets a text on its standard input (identity.publish,
// notify.command): without a shell, with a minimal environment, for at most 30 s. check_program: only one
// that root alone can change, as for the hooks that root runs. Failure: it was not started.
io::task<io::process_outcome> run_command(io::process&, std::vector<std::string> argv, std::string input,
                                          bool check_program = ::geteuid() == 0);

// How it ended: "exit 1", "signal 9", "did not end in time".
std::string ending_of(const io::process_outcome&);

// --- The hooks of one user, in order, after a new certificate is in place (contract section 6): the port,
// and how hooks run as child processes.

struct hook_run {
    policy::user_name name;
    std::vector<policy::hook> hooks;
    std::string directory;
    std::string generation;
    policy::instant not_after;
    std::string topic = {};  // of users: what they may read, and as whom
    std::string consumer_group = {};
    std::string reason = {};  // EXPOSURE_REASON: stable word of why there is a new certificate
};

// "logs/siem", or "credential backup": leads the sentences about hooks.
inline std::string subject_of(const policy::user_name& name)
{
    return name.exposure.empty() ? "credential " + name.user : name.text();
}

class hooks {
public:
    virtual ~hooks() = default;

    // All hooks returned 0, one after the other; the first that does not ends the run with errc::hook_failed,
    // its sentence showing which one, how it ended and the last of its output.
    virtual io::task<void> run(hook_run) = 0;
};

// Runs hooks as child processes of this one: `--deploy direct`, and the root side of `--deploy unit`.
// restart is `systemctl try-restart`, reload `systemctl try-reload-or-restart`: a unit that a person has
// stopped stays stopped, and reads the new certificate when it is started. An unknown unit fails, and so does
// one that systemd shows as failed, or as running since before, once systemctl has returned 0.
class hooks_runner final : public hooks {
public:
    // check_programs: only programs that root alone can change, as root has to.
    explicit hooks_runner(io::process& process, std::string systemctl = find_systemctl(),
                          bool check_programs = ::geteuid() == 0)
        : process_(process), systemctl_(std::move(systemctl)), check_programs_(check_programs)
    {
    }

    io::task<void> run(hook_run) override;

    static std::string find_systemctl();

private:
    policy::result<io::process_request> request_of(const policy::hook&, const hook_run&) const;
    io::task<void> run_one(const hook_run&, std::size_t index);

    io::process& process_;
    std::string systemctl_;
    bool check_programs_;
};

// Asks systemd about a unit, by `systemctl show`: needs no privilege, and works wherever the hooks do.
// All empty when systemctl does not answer; errc::stopping is the only failure.
io::task<policy::unit_facts> ask_unit(io::process&, std::string systemctl, std::string unit);

// KEY=VALUE lines in any order; what is not among them stays empty.
policy::unit_facts parse_unit(std::string_view text);

}  // namespace deploy
