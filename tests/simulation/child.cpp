#include "tests/simulation/child.hpp"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace simulation {

child_outcome in_child(const std::function<void(int)>& work)
{
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::cout.flush();
    std::fflush(stdout);
    const auto child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        ::close(ends[0]);
        work(ends[1]);
    }
    ::close(ends[1]);
    child_outcome outcome;
    char buffer[65536];
    for (ssize_t size; (size = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        outcome.told.append(buffer, static_cast<std::size_t>(size));
    ::close(ends[0]);
    ::waitpid(child, &outcome.status, 0);
    return outcome;
}

}  // namespace simulation
