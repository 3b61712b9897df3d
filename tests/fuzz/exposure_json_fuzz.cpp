#include "agent/platform/exposure_json.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Whatever the platform answers: no reader throws, and every id that it gives can stand in a path.

namespace {

void usable(const std::string& id)
{
    if (id.empty() || id == "." || id == ".." || id.find_first_of(" \n\r\t") != std::string::npos)
        std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    if (const auto users = platform::read_users(body))
        for (const auto& user : users->users)
            usable(user.id);
    if (const auto instances = platform::read_instances(body))
        for (const auto& instance : *instances)
            usable(instance.id);
    if (const auto user = platform::read_user(body)) usable(user->user.id);
    if (const auto id = platform::read_created_id(body); !id.empty()) usable(id);
    return 0;
}
