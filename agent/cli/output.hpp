#pragma once

#include "crypto/secret.hpp"
#include "policy/dates.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

// Output for people and programs: tables, colour, questions, JSON.

namespace cli {

bool is_terminal(std::FILE*);

enum class colour { none, green, yellow, red };

// The text in colour if standard output is a terminal and NO_COLOR is not set.
std::string painted(const std::string& text, colour);

// Asks on the terminal; false if there is none, or with --no-input.
bool confirmed(const std::string& question, bool no_input);

// Asks on the terminal without echo.
crypto::secret read_hidden(const std::string& prompt);

struct cell {
    std::string text;
    colour paint = colour::none;
};

// Columns as wide as their widest cell, separated by two spaces. Control characters in cells are neutralized.
class table {
public:
    explicit table(std::vector<std::string> header);

    void add(std::vector<cell> row);
    bool empty() const { return rows_.size() <= 1; }

    // Every row ends with a newline; empty if there are no rows.
    std::string text() const;

private:
    std::vector<std::vector<cell>> rows_;
};

// "-" if there is no value.
std::string text_or_dash(const std::string&);
std::string time_or_dash(const std::optional<policy::instant>&);

// null if there is no value.
boost::json::value text_or_null(const std::string&);
boost::json::value time_or_null(const std::optional<policy::instant>&);

// Prints one line of JSON to standard output.
void print_json(const boost::json::object&);

// Flushes standard output. Returns false, after a message, if not everything could be written.
bool flush_output();

}  // namespace cli
