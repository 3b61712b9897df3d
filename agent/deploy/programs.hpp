#pragma once

#include "agent/io/process.hpp"

#include <string>
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

}  // namespace deploy
