#pragma once

#include "agent/cli/terminal.hpp"

#include <string>
#include <vector>

// Columns for people: as wide as their widest cell, two blanks between them.

namespace cli {

struct cell {
    std::string text;
    colour paint = colour::none;
};

class table {
public:
    explicit table(std::vector<std::string> header);

    void add(std::vector<cell> row);
    bool empty() const { return rows_.size() <= 1; }

    // With a line end after every row; nothing when there is no row.
    std::string text() const;

private:
    std::vector<std::vector<cell>> rows_;
};

}  // namespace cli
