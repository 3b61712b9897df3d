#include "agent/disk/directory.hpp"

#include "agent/disk/errors.hpp"
#include "agent/io/crash_point.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace disk {
namespace {

constexpr int open_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr std::size_t longest_name = 200;  // leaves room for what a temporary name adds, within NAME_MAX
constexpr std::string_view temporary_suffix = ".exposure-agent";
constexpr int deepest_tree = 16;  // ours have two levels

std::string cannot(const char* do_what, const std::string& path)
{
    return std::string("cannot ") + do_what + " " + path;
}

policy::failure cannot_give(int error, const std::string& path, uid_t uid, gid_t gid)
{
    const std::string what =
        cannot("give", path) + " to user id " + std::to_string(uid) + ", group id " + std::to_string(gid);
    if (error != EPERM) return from_errno(error, what);
    return {
        .code = policy::errc::disk,
        .context = what + ": only root (CAP_CHOWN) may, or a member of the group that owns the file already",
        .kind = policy::retry::after_change};
}

policy::result<void> refuse_unless_plain(const std::string& name, const std::filesystem::path& where)
{
    if (is_plain_name(name)) return {};
    return policy::failure{
        .code = policy::errc::internal,
        .context = "a name that leads out of its directory was refused in " + where.string(),
        .kind = policy::retry::never};
}

std::filesystem::path without_slash(const std::filesystem::path& path)
{
    const auto normal = path.lexically_normal();
    return normal.has_filename() || !normal.has_relative_path() ? normal : normal.parent_path();
}

bool is_missing(const std::filesystem::path& path)
{
    struct stat facts;
    return lstat(path.c_str(), &facts) != 0 && errno == ENOENT;
}

policy::result<void> remove_content(int directory, const std::string& path, int depth);

policy::result<void> remove_entry(int parent, const std::string& name, const std::string& path, int depth)
{
    if (unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR) return from_errno(errno, cannot("remove", path));
    const descriptor child(openat(parent, name.c_str(), open_flags | O_NOFOLLOW));
    if (!child) return from_errno(errno, cannot("enter", path));
    if (const auto emptied = remove_content(child.get(), path, depth - 1); !emptied) return emptied;
    if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    return from_errno(errno, cannot("remove", path));
}

policy::result<std::vector<std::string>> names_in(int fd, const std::string& path)
{
    // a descriptor of its own, because reading moves the offset and closing the stream closes the descriptor
    descriptor copy(openat(fd, ".", open_flags));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy ? fdopendir(copy.get()) : nullptr, closedir);
    if (!stream) return from_errno(errno, cannot("list", path));
    copy.release();  // the stream owns it now

    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return from_errno(errno, cannot("list", path));
    std::sort(names.begin(), names.end());
    return names;
}

policy::result<void> remove_content(int fd, const std::string& path, int depth)
{
    if (depth == 0) return foreign(path, "deeper than anything the agent makes");
    const auto names = names_in(fd, path);
    if (!names) return names.error();
    for (const auto& name : *names)
        if (const auto removed = remove_entry(fd, name, path + "/" + name, depth); !removed) return removed;
    return {};
}

}  // namespace

descriptor::~descriptor()
{
    if (fd_ >= 0) close(fd_);
}

bool is_plain_name(std::string_view name) noexcept
{
    if (name.empty() || name.size() > longest_name || name == "." || name == "..") return false;
    return std::none_of(name.begin(), name.end(),
                        [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string temporary_name(const std::string& name)
{
    return "." + name + std::string(temporary_suffix);
}

policy::result<directory> directory::open(const std::filesystem::path& path)
{
    // a slash or a dot at the end would make the system follow a link
    const auto plain = without_slash(path);
    descriptor fd(::open(plain.c_str(), open_flags | O_NOFOLLOW));
    if (!fd) return from_errno(errno, cannot("open the directory", path.string()));
    return directory(std::move(fd), plain);
}

policy::result<directory> directory::open_through_link(const std::filesystem::path& path)
{
    descriptor fd(::open(path.c_str(), open_flags));
    if (!fd) return from_errno(errno, cannot("open the directory", path.string()));
    return directory(std::move(fd), path);
}

policy::result<directory> directory::make_path(const std::filesystem::path& path, const access& wanted)
{
    const auto plain = without_slash(path);
    // looked for before it is opened: one that another thread makes in between is as good
    if (!is_missing(plain)) return open(plain);

    const auto above = plain.parent_path();
    const auto parent = is_missing(above) ? make_path(above, wanted) : open_through_link(above);
    if (!parent) return parent.error();
    return parent->create(plain.filename().string(), wanted);
}

policy::result<directory> directory::create(const std::string& name, const access& wanted) const
{
    if (const auto plain = refuse_unless_plain(name, path_); !plain) return plain.error();
    const std::string temporary = temporary_name(name);
    io::crash_point("disk.directory.before");
    // made with its mode: a set-group-id bit from the parent would not survive a chmod by who is not in the
    // group
    if (mkdirat(fd(), temporary.c_str(), wanted.mode) != 0 && errno != EEXIST)
        return from_errno(errno, cannot("make the directory", path_of(name)));
    descriptor made(openat(fd(), temporary.c_str(), open_flags | O_NOFOLLOW));
    if (!made && errno == ENOENT && has(name)) return enter(name);
    if (!made) return from_errno(errno, cannot("open the directory", path_of(temporary)));
    if (const auto set = set_access(made.get(), wanted, path_of(temporary)); !set) return set.error();
    io::crash_point("disk.directory.made");
    // never over one that another thread has just made: what it writes there would be lost
    if (renameat2(fd(), temporary.c_str(), fd(), name.c_str(), RENAME_NOREPLACE) != 0) {
        const int failed = errno;
        const bool made_meanwhile = (failed == EEXIST || failed == ENOENT) && has(name);
        if (failed == EEXIST) unlinkat(fd(), temporary.c_str(), AT_REMOVEDIR);
        if (made_meanwhile) return enter(name);
        return from_errno(failed, cannot("make the directory", path_of(name)));
    }
    if (const auto synced = sync(); !synced) return synced.error();
    io::crash_point("disk.directory.after");
    return directory(std::move(made), path_of(name));
}

policy::result<directory> directory::enter(const std::string& name) const
{
    if (const auto plain = refuse_unless_plain(name, path_); !plain) return plain.error();
    descriptor fd(openat(fd_.get(), name.c_str(), open_flags | O_NOFOLLOW));
    if (!fd) return from_errno(errno, cannot("open the directory", path_of(name)));
    return directory(std::move(fd), path_of(name));
}

policy::result<directory> directory::make(const std::string& name, const access& wanted) const
{
    if (!has(name)) return create(name, wanted);
    auto there = enter(name);
    if (!there) return there;
    if (const auto set = set_access(there->fd(), wanted, path_of(name)); !set) return set.error();
    return there;
}

bool directory::has(const std::string& name) const
{
    struct stat facts;
    return is_plain_name(name) && fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

policy::result<std::vector<std::string>> directory::names() const
{
    return names_in(fd(), path_.string());
}

policy::result<void> directory::sync() const
{
    if (fsync(fd()) == 0) return {};
    return from_errno(errno, cannot("sync the directory", path_.string()));
}

policy::result<void> set_access(int fd, const access& wanted, const std::string& path)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) return from_errno(errno, cannot("look at", path));
    // a directory made in a set-group-id directory has its group and its bit from there, and hands them on
    const mode_t inherited = S_ISDIR(facts.st_mode) ? facts.st_mode & S_ISGID : 0;
    const mode_t mode = wanted.mode | inherited;
    const uid_t uid = wanted.uid.value_or(geteuid());
    const gid_t gid = wanted.gid.value_or(inherited != 0 ? facts.st_gid : getegid());
    if (facts.st_uid != uid && facts.st_uid != geteuid()) return foreign(path, "somebody else's");
    const bool give = facts.st_uid != uid || facts.st_gid != gid;
    if (give && fchown(fd, uid, gid) != 0) return cannot_give(errno, path, uid, gid);
    // chown takes the set-id bits away, so the mode comes second
    if ((facts.st_mode & 07777) != mode && fchmod(fd, mode) != 0)
        return from_errno(errno, cannot("set the mode of", path));
    return {};
}

policy::result<void> remove_tree(const directory& parent, const std::string& name)
{
    if (const auto plain = refuse_unless_plain(name, parent.path()); !plain) return plain;
    const std::string path = parent.path_of(name);
    const descriptor tree(openat(parent.fd(), name.c_str(), open_flags | O_NOFOLLOW));
    if (!tree && errno == ENOENT) return {};
    if (!tree) return from_errno(errno, cannot("remove", path));

    io::crash_point("disk.remove.before");
    if (const auto emptied = remove_content(tree.get(), path, deepest_tree); !emptied) return emptied;
    if (unlinkat(parent.fd(), name.c_str(), AT_REMOVEDIR) != 0)
        return from_errno(errno, cannot("remove", path));
    if (const auto synced = parent.sync(); !synced) return synced;
    io::crash_point("disk.remove.after");
    return {};
}

policy::result<void> remove_leftovers(const directory& where)
{
    const auto names = where.names();
    if (!names) return names.error();
    for (const auto& name : *names)
        if (name.starts_with('.') && name.ends_with(temporary_suffix))
            if (const auto removed = remove_entry(where.fd(), name, where.path_of(name), deepest_tree);
                !removed)
                return removed;
    return {};
}

}  // namespace disk
