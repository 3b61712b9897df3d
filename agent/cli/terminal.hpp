#pragma once

#include <cstdio>
#include <string>

// What a terminal may be shown: colour and progress nowhere else.

namespace cli {

bool is_terminal(std::FILE*);

enum class colour { none, green, yellow, red };

// The text in colour, when standard output is a terminal and NO_COLOR is not set.
std::string painted(const std::string& text, colour);

// Asks on the terminal; false without one, or with --no-input.
bool confirmed(const std::string& question, bool no_input);

}  // namespace cli
