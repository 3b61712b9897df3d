#pragma once

#include <string>
#include <vector>

// The command line of contract section 4, parsed by CLI11.

namespace cli {

// Parses the arguments and runs the verb; returns the program's exit code.
int main(int argc, char** argv);

}  // namespace cli

namespace CLI {
class App;
}

namespace cli {

// The hidden first argument with which completion scripts ask the program for candidates.
inline constexpr const char* complete_verb = "__complete";

// A completion script for bash, zsh or fish. It asks the program, which knows every verb, option
// and value, and the users and exposures of the configuration.
std::string completion_script(const std::string& shell);

// Prints the candidates for the last word, one per line with the description after a tab;
// ":files" stands for file names.
void print_candidates(const CLI::App&, const std::vector<std::string>& words);

}  // namespace cli
