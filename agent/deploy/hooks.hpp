#pragma once

#include "agent/io/async.hpp"
#include "agent/io/process.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/observed.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

// Programs that the agent runs on its own: found in fixed directories, never by $PATH.

namespace deploy {

// The path of the first executable file of that name in the directories; if there is none, the path in
// the first directory, so that starting it reports what is missing. `directories` must not be empty.
std::string find_program(const std::string& name, const std::vector<std::string>& directories);

// Runs a configured command with a text on its standard input (identity.publish, notify.command):
// without a shell, with a minimal environment, for at most 30 s. check_program: refuse one that users
// other than root can change, as for hooks run by root. Failure: it was not started.
io::task<io::process_outcome> run_command(io::process&, std::vector<std::string> argv, std::string input,
                                          bool check_program = ::geteuid() == 0);

// For display: "exit 1", "signal 9", "did not end in time".
std::string ending_of(const io::process_outcome&);

// --- The hooks of one user, run in order after a new certificate is in place (contract section
// 6): the port, and its implementation by child processes.

struct hook_run {
    policy::user_name name;
    std::vector<policy::hook> hooks;
    std::string directory;
    std::string generation;
    std::optional<policy::instant> not_after;  // none: a credential
    std::string topic = {};                    // for users: what they may read, and as which group
    std::string consumer_group = {};
    std::string reason = {};  // EXPOSURE_REASON: stable word for why there is a new certificate
};

// "logs/siem" or "credential backup": starts the messages about hooks.
inline std::string subject_of(const policy::user_name& name)
{
    return name.exposure.empty() ? "credential " + name.user : name.text();
}

class hooks {
public:
    virtual ~hooks() = default;

    // Runs the hooks one after the other. The first that does not return 0 ends the run with
    // errc::hook_failed; the message says which one it was, how it ended and the end of its output.
    virtual io::task<void> run(hook_run) = 0;
};

// Runs hooks as child processes: `--deploy direct`, and the root side of `--deploy unit`. restart is
// `systemctl try-restart`, reload `systemctl try-reload-or-restart`: a unit that a person has stopped
// stays stopped, and reads the new certificate when it is started. An unknown unit fails; so does one
// that systemd, after systemctl returned 0, still shows as failed or as running since before.
class hooks_runner final : public hooks {
public:
    // check_programs: run only programs that root alone can change, as root must.
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

// Asks systemd about a unit with `systemctl show`: needs no privileges and works wherever the
// hooks do. All fields are empty if systemctl does not answer; errc::stopping is the only failure.
io::task<policy::unit_facts> ask_unit(io::process&, std::string systemctl, std::string unit);

// Parses KEY=VALUE lines in any order; missing ones stay empty.
policy::unit_facts parse_unit(std::string_view text);

}  // namespace deploy
