#include "tests/simulation/disk_trouble.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t block = 4096;  // of a new name

std::string path_of(int fd)
{
    std::error_code ignored;
    return fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored).native();
}

}  // namespace

void disk_trouble::begin(int error, double share, std::int64_t room)
{
    error_ = error;
    share_ = share;
    room_ = room;
}

// Without the WAL index, which is shared memory.
bool disk_trouble::is_below(const std::string& path) const
{
    return path.starts_with(below_.native()) && !path.ends_with("-shm");
}

bool disk_trouble::is_below(int where, const char* path) const
{
    const std::string name = path;
    return is_below(name.starts_with("/") ? name : path_of(where) + "/" + name);
}

int disk_trouble::by_chance(dice& chance) const
{
    return error_ == EIO && chance.chance(share_) ? EIO : 0;
}

int disk_trouble::at_write(dice& chance, int fd, off_t end)
{
    if (error_ == 0 || !is_below(path_of(fd))) return 0;
    if (error_ != ENOSPC) return error_ == EROFS ? EROFS : by_chance(chance);
    struct stat facts {};
    ::fstat(fd, &facts);
    const auto grows = std::max<std::int64_t>(end - facts.st_size, 0);
    if (grows > room_) return ENOSPC;
    room_ -= grows;
    return 0;
}

int disk_trouble::at_sync(dice& chance, int fd)
{
    return error_ == EIO && is_below(path_of(fd)) ? by_chance(chance) : 0;
}

int disk_trouble::at_open(dice& chance, int where, const char* path, int flags)
{
    const bool writes = (flags & (O_WRONLY | O_RDWR)) != 0;
    if (error_ == 0 || !writes || !is_below(where, path)) return 0;
    if (error_ == EROFS) return EROFS;
    struct stat facts {};
    const bool there = ::fstatat(where, path, &facts, 0) == 0;
    return (flags & O_CREAT) != 0 && !there ? at_new_name(chance, where, path) : 0;
}

int disk_trouble::at_new_name(dice& chance, int where, const char* path)
{
    if (error_ == ENOSPC && room_ < block && is_below(where, path)) return ENOSPC;
    return at_change_of_name(chance, where, path);
}

int disk_trouble::at_change_of_name(dice& chance, int where, const char* path)
{
    if (error_ == 0 || !is_below(where, path)) return 0;
    return error_ == EROFS ? EROFS : by_chance(chance);
}

void disk_trouble::removes(int where, const char* path)
{
    struct stat facts {};
    if (error_ == ENOSPC && is_below(where, path) &&
        ::fstatat(where, path, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode))
        room_ += facts.st_size;
}

}  // namespace simulation
