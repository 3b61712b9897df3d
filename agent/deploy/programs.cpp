#include "agent/deploy/programs.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace deploy {
namespace {

bool is_program(const std::string& path)
{
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& name, const std::vector<std::string>& directories)
{
    for (const auto& directory : directories) {
        auto path = directory + "/" + name;
        if (is_program(path)) return path;
    }
    return directories.front() + "/" + name;
}

}  // namespace deploy
