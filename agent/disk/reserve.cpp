#include "agent/disk/reserve.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/errors.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace disk {
namespace {

constexpr off_t reserve_bytes = 512 << 10;  // answers of all users that are served side by side

}  // namespace

policy::result<void> keep_reserve(const paths& where)
{
    const auto path = where.reserve();
    const auto home = directory::open(path.parent_path());
    if (!home) return home.error();
    const auto name = path.filename().string();
    const descriptor file(
        openat(home->fd(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    const std::string what = "cannot keep room for the platform's answers in " + path.string();
    if (!file) return from_errno(errno, what);
    struct stat facts;
    if (fstat(file.get(), &facts) != 0) return from_errno(errno, what);
    if (S_ISREG(facts.st_mode) && facts.st_size >= reserve_bytes) return {};
    const int error = posix_fallocate(file.get(), 0, reserve_bytes);
    if (error == 0) return {};
    unlinkat(home->fd(), name.c_str(), 0);
    return from_errno(error, what);
}

bool spend_reserve(const paths& where)
{
    return unlink(where.reserve().c_str()) == 0;
}

}  // namespace disk
