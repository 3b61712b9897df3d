#include "agent/cli/output.hpp"

#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "policy/dates.hpp"
#include "policy/text.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <termios.h>
#include <unistd.h>

namespace cli {
namespace {

// Counts characters, not bytes: names of remote users may contain anything.
std::size_t width_of(const std::string& text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return !policy::is_continuation(c); }));
}

}  // namespace

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

table::table(std::vector<std::string> header)
{
    std::vector<cell> row;
    for (auto& text : header)
        row.push_back({std::move(text)});
    rows_.push_back(std::move(row));
}

void table::add(std::vector<cell> row)
{
    for (auto& c : row)
        c.text = io::printable(c.text);
    rows_.push_back(std::move(row));
}

std::string table::text() const
{
    if (empty()) return "";
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width_of(row[i].text));
    std::string out;
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            out += painted(row[i].text, row[i].paint);
            if (i + 1 < row.size()) out += std::string(widths[i] - width_of(row[i].text) + 2, ' ');
        }
        out += "\n";
    }
    return out;
}

std::string text_or_dash(const std::string& text)
{
    return text.empty() ? "-" : text;
}

std::string time_or_dash(const std::optional<policy::instant>& at)
{
    return at ? policy::format_utc(*at) : "-";
}

boost::json::value text_or_null(const std::string& text)
{
    return text.empty() ? boost::json::value(nullptr) : boost::json::value(text);
}

boost::json::value time_or_null(const std::optional<policy::instant>& at)
{
    return at ? boost::json::value(policy::format_utc(*at)) : boost::json::value(nullptr);
}

void print_json(const boost::json::object& shown)
{
    std::cout << boost::json::serialize(shown) << "\n";
}

bool flush_output()
{
    std::cout.flush();
    if (std::cout) return true;
    std::cout.clear();
    errno = 0;
    std::cout << std::flush;  // once more, to get errno
    const int why = ::write(STDOUT_FILENO, "\n", 1) == 1 ? EIO : errno;
    if (why != EPIPE)  // `| head` has read enough
        std::cerr << "exposure-agent: cannot write to standard output: " << std::strerror(why) << "\n";
    return false;
}

crypto::secret read_hidden(const std::string& prompt)
{
    termios before{};
    const bool known = ::tcgetattr(STDIN_FILENO, &before) == 0;
    auto hidden = before;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (known) ::tcsetattr(STDIN_FILENO, TCSANOW, &hidden);
    std::cerr << prompt << ": " << std::flush;  // only now: an immediate answer would be echoed
    std::string line;
    std::getline(std::cin, line);
    if (known) ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
    std::cerr << "\n";
    return crypto::secret(std::move(line));
}

}  // namespace cli
