#pragma once

#include <string>
#include <vector>

// The command line: what contract section 4 names, read by CLI11.

namespace cli {

// Reads the arguments and runs the verb; gives the exit code of the program.
int main(int argc, char** argv);

}  // namespace cli

namespace CLI {
class App;
}

namespace cli {

// The hidden first argument with which the scripts ask the program what may come next.
inline constexpr const char* complete_verb = "__complete";

// A completion script for bash, zsh or fish: it asks the program, which knows every verb, option and value,
// and the users and exposures of the configuration.
std::string completion_script(const std::string& shell);

// Prints what may stand for the last of the words, one a line with its description after a tab; ":files"
// stands for the names of files.
void print_candidates(const CLI::App&, const std::vector<std::string>& words);

}  // namespace cli
