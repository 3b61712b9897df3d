#include "config/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace config {

environment this_process()
{
    std::array<char, 256> name{};
    std::string host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
    host.resize(std::min(host.find('.'), host.size()));

    return {.hostname = std::move(host), .variable = [](const std::string& variable) {
                const char* value = std::getenv(variable.c_str());
                return value ? std::optional<std::string>(value) : std::nullopt;
            }};
}

}  // namespace config
