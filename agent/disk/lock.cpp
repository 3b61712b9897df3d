#include "agent/disk/lock.hpp"

#include "agent/disk/errors.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace disk {
namespace {

constexpr std::string_view daemon_mark = " daemon";

// What the holder wrote: its process id, and whether it is a daemon.
std::string note_in(int fd)
{
    std::string note(32, '\0');
    note.resize(static_cast<std::size_t>(std::max<ssize_t>(pread(fd, note.data(), note.size(), 0), 0)));
    return note;
}

// "process 123"
std::string holder(int fd)
{
    auto pid = note_in(fd);
    pid.resize(std::min(pid.find_first_not_of("0123456789"), pid.size()));
    return pid.empty() ? "another agent" : "another agent (process " + pid + ")";
}

}  // namespace

policy::result<state_lock> state_lock::acquire(const paths& where, owner who)
{
    const std::string path = where.lock().string();
    // 0600, because whoever can open a file can lock it; non-blocking, because it might be a FIFO
    descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!file && errno == ELOOP) return foreign(path, "a link");
    if (!file) return from_errno(errno, "cannot open the lock file " + path);
    struct stat facts;
    if (fstat(file.get(), &facts) != 0) return from_errno(errno, "cannot look at the lock file " + path);
    if (!S_ISREG(facts.st_mode)) return foreign(path, "no regular file");

    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return from_errno(errno, "cannot lock " + path);
        return policy::failure{.code = policy::errc::busy,
                               .context = holder(file.get()) + " holds " + where.state_dir().string() +
                                          "; wait until it is done, or stop it"};
    }
    if (const auto set = set_access(file.get(), {.mode = 0600}, path); !set) return set.error();
    auto note = std::to_string(getpid());
    if (who == owner::daemon) note += daemon_mark;
    note += "\n";
    if (ftruncate(file.get(), 0) != 0 ||
        pwrite(file.get(), note.data(), note.size(), 0) != static_cast<ssize_t>(note.size()))
        return from_errno(errno, "cannot write the lock file " + path);
    // a run that has nothing to do leaves no trace on the disk, not even here
    const timespec times[] = {facts.st_atim, facts.st_mtim};
    if (futimens(file.get(), times) != 0) return from_errno(errno, "cannot write the lock file " + path);
    return state_lock(std::move(file));
}

bool state_lock::is_daemons(const paths& where)
{
    const descriptor file(open(where.lock().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file) return false;
    const auto note = note_in(file.get());
    return note.empty() || note.find(daemon_mark) != std::string::npos;
}

}  // namespace disk
