#pragma once

#include <functional>
#include <string>

namespace simulation {

// What a forked process wrote to its pipe, and its status (waitpid(2)).
struct child_outcome {
    std::string told;
    int status = 0;
};

// Calls `work`, which must not return, in a forked process, and waits for its end.
child_outcome in_child(const std::function<void(int to)>& work);

}  // namespace simulation
