#include "agent/disk/reserve.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/errors.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

policy::result<void> has_room(const paths& where)
{
    const std::string what = "nothing can be kept in " + where.private_directory().string();
    struct statvfs space;
    if (statvfs(where.private_directory().c_str(), &space) != 0) return {};  // there is nothing yet
    if ((space.f_flag & ST_RDONLY) != 0) return from_errno(EROFS, what);
    struct stat facts;
    const bool kept = stat(where.reserve().c_str(), &facts) == 0;
    const auto left = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (!kept && left < static_cast<std::uint64_t>(reserve_bytes)) return from_errno(ENOSPC, what);
    return {};
}

bool spend_reserve(const paths& where)
{
    return unlink(where.reserve().c_str()) == 0;
}

}  // namespace disk
