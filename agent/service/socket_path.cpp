#include "agent/service/socket_path.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/un.h>

namespace service {

policy::result<socket_path> reach(const std::filesystem::path& path)
{
    if (path.native().size() < sizeof(sockaddr_un::sun_path))
        return socket_path{.directory = disk::descriptor(), .text = path.native()};
    disk::descriptor directory(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory)
        return policy::failure{.code = policy::errc::disk,
                               .context = path.parent_path().native() + ": " + std::strerror(errno)};
    auto text = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + path.filename().native();
    return socket_path{.directory = std::move(directory), .text = std::move(text)};
}

}  // namespace service
