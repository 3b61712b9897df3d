#include "tests/simulation/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <fcntl.h>
#include <linux/fs.h>
#include <malloc.h>
#include <map>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

// Replacements for the C library functions through which the program sees time and the disk. The linker
// resolves them here for this program and for the shared libraries it loads (libstdc++, SQLite). Outside a
// simulated life they behave like the originals.

namespace {

using simulation::machine;
using simulation::nanoseconds;

machine* ours()
{
    auto* const one = simulation::the_machine();
    return one && one->is_of_program() ? one : nullptr;
}

void fill(timespec& into, nanoseconds from)
{
    into.tv_sec = from.count() / 1'000'000'000;
    into.tv_nsec = from.count() % 1'000'000'000;
}

// The WAL index (-shm) is shared memory of SQLite, accessed under its locks; nothing in it is persistent.
bool is_memory(std::string_view path)
{
    return path.ends_with("-shm");
}

bool is_on_disk(int fd)
{
    struct stat facts;
    if (fd <= 2 || ::fstat(fd, &facts) != 0 || !(S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)))
        return false;
    // tmpfs does not use the number of a file twice
    static std::map<std::pair<dev_t, ino_t>, bool> known;
    const auto [place, is_new] = known.try_emplace({facts.st_dev, facts.st_ino}, false);
    if (!is_new) return place->second;
    char path[512];
    const auto name = "/proc/self/fd/" + std::to_string(fd);
    const auto size = ::readlink(name.c_str(), path, sizeof path);
    place->second = size > 0 && !is_memory({path, static_cast<std::size_t>(size)});
    return place->second;
}

// The program may be killed here; otherwise the change is recorded.
template <class Note>
void change(const char* call, Note note)
{
    auto* const one = ours();
    if (!one || !one->is_by_program()) return;
    one->changes_the_disk(call);
    if (one->disk) note(*one->disk);
}

void write_of(int fd, off_t at, size_t size, const char* call)
{
    if (ours() && is_on_disk(fd)) change(call, [=](simulation::power& disk) { disk.writes(fd, at, size); });
}

void sync_of(int fd, const char* call)
{
    if (ours() && is_on_disk(fd)) change(call, [fd](simulation::power& disk) { disk.syncs(fd); });
}

void new_name(const char* call, int where, const char* path)
{
    if (!is_memory(path)) change(call, [=](simulation::power& disk) { disk.makes(where, path); });
}

// The disk refuses a call of the program: sets errno. `asks` names the error of a call, or 0.
template <class Question>
bool refused(Question asks)
{
    auto* const one = ours();
    if (!one || !one->trouble.now() || !one->is_by_program()) return false;
    const int error = asks(one->trouble, one->chance());
    if (error != 0) errno = error;
    return error != 0;
}

bool refuses_write(int fd, off_t end)
{
    return refused([=](auto& disk, auto& dice) { return disk.at_write(dice, fd, end); });
}

bool refuses_sync(int fd)
{
    return refused([=](auto& disk, auto& dice) { return disk.at_sync(dice, fd); });
}

bool refuses_name(int where, const char* path)
{
    return refused([=](auto& disk, auto& dice) { return disk.at_new_name(dice, where, path); });
}

bool refuses_change(int where, const char* path)
{
    return refused([=](auto& disk, auto& dice) { return disk.at_change_of_name(dice, where, path); });
}

// The mode argument, present only if the flags create a file.
mode_t mode_of(int flags, va_list rest)
{
    return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t which, timespec* into)
{
    const auto* const one = simulation::the_machine();
    if (!one || which == CLOCK_PROCESS_CPUTIME_ID || which == CLOCK_THREAD_CPUTIME_ID)
        return static_cast<int>(::syscall(SYS_clock_gettime, which, into));
    fill(*into, which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE ? one->wall() : one->steady());
    return 0;
}

int gettimeofday(timeval* __restrict into, void* __restrict zone)
{
    const auto* const one = simulation::the_machine();
    if (!one) return static_cast<int>(::syscall(SYS_gettimeofday, into, zone));
    into->tv_sec = one->wall().count() / 1'000'000'000;
    into->tv_usec = one->wall().count() % 1'000'000'000 / 1000;
    return 0;
}

time_t time(time_t* into)
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

int nanosleep(const timespec* duration, timespec* rest)
{
    if (auto* one = ours()) {
        one->pass(std::chrono::seconds(duration->tv_sec) + nanoseconds(duration->tv_nsec));
        return 0;
    }
    return static_cast<int>(::syscall(SYS_nanosleep, duration, rest));
}

int usleep(useconds_t duration)
{
    const timespec as{.tv_sec = duration / 1'000'000, .tv_nsec = duration % 1'000'000 * 1000};
    return nanosleep(&as, nullptr);
}

// Fails, so that Asio waits for its timers in epoll_wait.
int timerfd_create(int, int) noexcept
{
    errno = ENOSYS;
    return -1;
}

int epoll_wait(int fd, epoll_event* events, int count, int timeout)
{
    auto* const one = ours();
    if (!one) return static_cast<int>(::syscall(SYS_epoll_pwait, fd, events, count, timeout, nullptr, 0));
    const auto ready = static_cast<int>(::syscall(SYS_epoll_pwait, fd, events, count, 0, nullptr, 0));
    if (ready == 0 && timeout != 0)
        one->wait(one->steady() + std::chrono::milliseconds(timeout < 0 ? 60'000 : timeout));
    return ready;
}

int malloc_trim(size_t) noexcept
{
    return 0;
}

void _Exit(int code) noexcept
{
    if (auto* one = ours()) one->crash(machine::end::left_behind);
    ::_exit(code);
}

ssize_t write(int fd, const void* data, size_t size)
{
    if (auto* one = ours(); one && fd == 2 && one->on_log) {
        one->on_log({static_cast<const char*>(data), size});
        return static_cast<ssize_t>(size);
    }
    const auto at = ours() ? std::max<off_t>(::lseek(fd, 0, SEEK_CUR), 0) : 0;
    if (refuses_write(fd, at + static_cast<off_t>(size))) return -1;
    write_of(fd, at, size, "write");
    return ::syscall(SYS_write, fd, data, size);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at)
{
    if (refuses_write(fd, at + static_cast<off_t>(size))) return -1;
    write_of(fd, at, size, "pwrite");
    return ::syscall(SYS_pwrite64, fd, data, size, at);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at)
{
    return pwrite64(fd, data, size, at);
}

int fsync(int fd)
{
    if (refuses_sync(fd)) return -1;
    sync_of(fd, "fsync");
    return 0;
}

int fdatasync(int fd)
{
    if (refuses_sync(fd)) return -1;
    sync_of(fd, "fdatasync");
    return 0;
}

int ftruncate64(int fd, off64_t size) noexcept
{
    if (refuses_write(fd, size)) return -1;
    if (ours() && is_on_disk(fd))
        change("ftruncate", [=](simulation::power& disk) { disk.resizes(fd, size); });
    return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

int ftruncate(int fd, off_t size) noexcept
{
    return ftruncate64(fd, size);
}

int posix_fallocate(int fd, off_t at, off_t size)
{
    if (refuses_write(fd, at + size)) return errno;
    return ::syscall(SYS_fallocate, fd, 0, at, size) == 0 ? 0 : errno;
}

int statvfs(const char* __restrict path, struct statvfs* __restrict into) noexcept
{
    struct statfs facts {};
    if (::statfs(path, &facts) != 0) return -1;
    *into = {};
    into->f_bsize = into->f_frsize = static_cast<unsigned long>(facts.f_bsize);
    into->f_blocks = facts.f_blocks;
    into->f_bfree = into->f_bavail = facts.f_bavail;
    into->f_namemax = static_cast<unsigned long>(facts.f_namelen);
    const auto* const one = ours();
    if (!one || !one->trouble.now()) return 0;
    if (one->trouble.error() == EROFS) into->f_flag |= ST_RDONLY;
    if (one->trouble.error() == ENOSPC)
        into->f_bfree = into->f_bavail = static_cast<fsblkcnt_t>(one->trouble.room()) / into->f_frsize;
    return 0;
}

int renameat2(int from, const char* old_path, int to, const char* new_path, unsigned flags) noexcept
{
    if (refuses_change(to, new_path)) return -1;
    struct stat there;
    const bool exists =
        (flags & RENAME_NOREPLACE) != 0 && ::fstatat(to, new_path, &there, AT_SYMLINK_NOFOLLOW) == 0;
    change("rename", [=](simulation::power& disk) {
        if (!exists) disk.renames(from, old_path, to, new_path);
    });
    return static_cast<int>(::syscall(SYS_renameat2, from, old_path, to, new_path, flags));
}

int renameat(int from, const char* old_path, int to, const char* new_path) noexcept
{
    return renameat2(from, old_path, to, new_path, 0);
}

int rename(const char* old_path, const char* new_path) noexcept
{
    return renameat2(AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
}

int unlinkat(int where, const char* path, int flags) noexcept
{
    if (refuses_change(where, path)) return -1;
    if (auto* const one = ours(); one && one->is_by_program()) one->trouble.removes(where, path);
    if (!is_memory(path)) change("unlink", [=](simulation::power& disk) { disk.removes(where, path); });
    return static_cast<int>(::syscall(SYS_unlinkat, where, path, flags));
}

int unlink(const char* path) noexcept
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char* path) noexcept
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int where, const char* path, mode_t mode) noexcept
{
    if (refuses_name(where, path)) return -1;
    new_name("mkdir", where, path);
    return static_cast<int>(::syscall(SYS_mkdirat, where, path, mode));
}

int mkdir(const char* path, mode_t mode) noexcept
{
    return mkdirat(AT_FDCWD, path, mode);
}

int symlinkat(const char* target, int where, const char* path) noexcept
{
    if (refuses_name(where, path)) return -1;
    new_name("symlink", where, path);
    return static_cast<int>(::syscall(SYS_symlinkat, target, where, path));
}

int linkat(int from, const char* old_path, int to, const char* new_path, int flags) noexcept
{
    if (refuses_name(to, new_path)) return -1;
    new_name("link", to, new_path);
    return static_cast<int>(::syscall(SYS_linkat, from, old_path, to, new_path, flags));
}

int openat64(int where, const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    std::string simulated;
    if (auto* one = simulation::the_machine(); one && std::string_view(path) == "/etc/machine-id") {
        simulated = one->root() / "machine-id";
        path = simulated.c_str();
    }
    if (refused([=](auto& disk, auto& dice) { return disk.at_open(dice, where, path, flags); })) return -1;
    if ((flags & O_CREAT) != 0) new_name("create", where, path);
    return static_cast<int>(::syscall(SYS_openat, where, path, flags, mode));
}

int openat(int where, const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return openat64(where, path, flags, mode);
}

int open64(const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return openat64(AT_FDCWD, path, flags, mode);
}

int open(const char* path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return openat64(AT_FDCWD, path, flags, mode);
}
}
