#include "agent/disk/state_directory.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/files.hpp"
#include "agent/io/environment.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace disk {
namespace {

const std::string& checked(const std::string& name)
{
    if (!is_plain_name(name)) throw std::invalid_argument("a name that could leave its directory");
    return name;
}

}  // namespace

paths::paths(std::filesystem::path state_dir) : state_dir_(std::move(state_dir)) {}

std::filesystem::path paths::lock() const
{
    return state_dir_ / "lock";
}

std::filesystem::path paths::control_socket() const
{
    return state_dir_ / "control.sock";
}

std::filesystem::path paths::spool() const
{
    return state_dir_ / "spool";
}

std::filesystem::path paths::live(const policy::user_name& name) const
{
    return state_dir_ / "live" / checked(name.exposure) / checked(name.user);
}

std::filesystem::path paths::private_directory() const
{
    return state_dir_ / "private";
}

std::filesystem::path paths::database() const
{
    return private_directory() / "state.db";
}

std::filesystem::path paths::reserve() const
{
    return private_directory() / "reserve";
}

namespace {

constexpr mode_t state_mode = 0711;
constexpr mode_t private_mode = 0700;

policy::result<uid_t> owner_of(const directory& one)
{
    struct stat facts;
    if (fstat(one.fd(), &facts) != 0) return from_errno(errno, "cannot inspect " + one.path().string());
    return facts.st_uid;
}

policy::failure belongs_to(uid_t owner, const std::string& path)
{
    return {.code = policy::errc::foreign_file,
            .context = path + " belongs to " + io::user_name(owner) + ", who could not read what " +
                       io::user_name(geteuid()) +
                       " creates there. Start the service and run the command again, or run: sudo -u " +
                       io::user_name(owner) + " exposure-agent ...",
            .kind = policy::retry::after_change};
}

policy::result<directory> open_state_directory(const std::filesystem::path& path)
{
    struct stat facts;
    const bool there = stat(path.c_str(), &facts) == 0;
    auto opened =
        there ? directory::open_through_link(path) : directory::make_path(path, {.mode = state_mode});
    if (!opened) return opened;
    const auto owner = owner_of(*opened);
    if (!owner) return owner.error();
    if (*owner != geteuid() && *owner != 0) return belongs_to(*owner, path.string());
    if (*owner == geteuid())
        if (const auto set = set_access(opened->fd(), {.mode = state_mode}, path.string()); !set)
            return set.error();
    return opened;
}

}  // namespace

policy::result<void> prepare_state_directory(const paths& where)
{
    const auto state = open_state_directory(where.state_dir());
    if (!state) return state.error();
    const std::string name = where.private_directory().filename().string();
    if (state->has(name)) {
        const auto there = state->enter(name);
        if (!there) return there.error();
        const auto owner = owner_of(*there);
        if (!owner) return owner.error();
        if (*owner != geteuid()) return belongs_to(*owner, where.private_directory().string());
    }
    const auto made = state->make(name, {.mode = private_mode});
    if (!made) return made.error();
    return {};
}

namespace {

constexpr std::string_view daemon_mark = " daemon";

// What the holder wrote: its process id, and whether it is a daemon.
std::string note_in(int fd)
{
    std::string note(32, '\0');
    note.resize(static_cast<std::size_t>(std::max<ssize_t>(pread(fd, note.data(), note.size(), 0), 0)));
    return note;
}

// "another agent (process 123)"
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
    // 0600, because anybody who can open a file can lock it; non-blocking, because it might be a FIFO
    descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!file && errno == ELOOP) return foreign(path, "a link");
    if (!file) return from_errno(errno, "cannot open the lock file " + path);
    struct stat facts;
    if (fstat(file.get(), &facts) != 0) return from_errno(errno, "cannot inspect the lock file " + path);
    if (!S_ISREG(facts.st_mode)) return foreign(path, "not a regular file");

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
    // a run with nothing to do must not change anything on disk, not even this file's times
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
