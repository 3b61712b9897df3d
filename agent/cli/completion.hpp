#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cli {

// A completion script for bash, zsh or fish, made from the verbs and flags that the command line itself
// knows.
std::string completion_script(const CLI::App&, const std::string& shell);

}  // namespace cli
