#include "agent/cli/terminal.hpp"

#include "agent/io/environment.hpp"

#include <iostream>
#include <unistd.h>

namespace cli {

bool is_terminal(std::FILE* stream)
{
    if (io::environment("TERM") == "dumb") return false;
    return ::isatty(::fileno(stream)) == 1;
}

std::string painted(const std::string& text, colour c)
{
    const auto no_color = io::environment("NO_COLOR");
    if (c == colour::none || (no_color && !no_color->empty()) || !is_terminal(stdout)) return text;
    const char* code = c == colour::green ? "\033[32m" : c == colour::yellow ? "\033[33m" : "\033[31m";
    return code + text + "\033[0m";
}

bool confirmed(const std::string& question, bool no_input)
{
    if (no_input || ::isatty(STDIN_FILENO) != 1) return false;
    std::cerr << question << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace cli
