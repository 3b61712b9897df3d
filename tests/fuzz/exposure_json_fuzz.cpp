#include "agent/platform/exposure_client.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Arbitrary responses of the platform: no reader throws, and every id returned is safe in a URL path.

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
    // at once and in chunks: same users, same result
    const auto read = [&](std::size_t piece, std::vector<policy::remote_user>& users) {
        platform::user_list_reader list([&](policy::remote_user user) { users.push_back(std::move(user)); });
        for (std::size_t at = 0; at < body.size(); at += piece)
            if (!list.write(body.substr(at, piece))) return false;
        return list.finish().has_value();
    };
    std::vector<policy::remote_user> whole;
    std::vector<policy::remote_user> pieces;
    const bool good = read(body.size() + 1, whole);
    if (good != read(7, pieces) || (good && whole != pieces)) std::abort();
    for (const auto& user : whole)
        usable(user.id);
    if (const auto instances = platform::read_instances(body))
        for (const auto& instance : *instances)
            usable(instance.id);
    if (const auto user = platform::read_user(body)) usable(user->user.id);
    if (const auto id = platform::read_created_id(body); !id.empty()) usable(id);
    return 0;
}
