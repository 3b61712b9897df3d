#include "agent/io/environment.hpp"

#include <array>
#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace io {

std::optional<std::string> environment(const std::string& name)
{
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string short_hostname()
{
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
    const std::string full = name.data();
    const auto first = full.substr(0, full.find('.'));
    return first.empty() ? "localhost" : first;
}

}  // namespace io
