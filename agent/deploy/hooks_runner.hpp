#pragma once

#include "agent/deploy/hooks.hpp"
#include "agent/io/process.hpp"

#include <string>
#include <unistd.h>

// Runs hooks as child processes of this one: `--deploy direct`, and the root side of `--deploy unit`.

namespace deploy {

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

}  // namespace deploy
