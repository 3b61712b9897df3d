#pragma once

#include <string>
#include <vector>

// Programs that the agent runs by itself: found in fixed places, never by $PATH.

namespace deploy {

// The first of the directories that holds an executable file of that name, as a path; the path in the first
// directory when none does, so that starting it says what is missing. `directories` is not empty.
std::string find_program(const std::string& name, const std::vector<std::string>& directories);

}  // namespace deploy
