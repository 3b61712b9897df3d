#pragma once

#include "agent/deploy/hooks.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/io/clock.hpp"

#include <filesystem>

// The agent's side of `--deploy unit`: asks root's helper to run a user's hooks, and waits for the answer.

namespace deploy {

class spooled_hooks final : public hooks {
public:
    // `directory` has `spool` and `results` below it; see spool.hpp.
    spooled_hooks(io::clock& clock, std::filesystem::path directory)
        : clock_(clock), directory_(std::move(directory))
    {
    }

    // Failure as of hooks::run; also errc::hook_failed when the spool cannot be written, or when no answer
    // came within the hooks' own time limits and two minutes. The entry stays then: the helper may come to it
    // later.
    io::task<void> run(hook_run) override;

private:
    policy::result<void> hand_over(const std::string& entry, const spool_request&) const;
    policy::result<std::optional<spool_answer>> look(const std::string& entry,
                                                     const std::string& ticket) const;

    io::clock& clock_;
    std::filesystem::path directory_;
};

}  // namespace deploy
