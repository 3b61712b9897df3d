#include "agent/disk/directory.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/environment.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <memory>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>

namespace disk {
namespace {

struct meaning {
    policy::errc code = policy::errc::disk;
    policy::retry kind = policy::retry::later;
    const char* remedy = "";
};

meaning meaning_of(int error)
{
    using policy::errc;
    using policy::retry;
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return {errc::disk_full, retry::later, "; free some space"};
        case EFBIG:
            return {errc::disk_full, retry::later, "; raise the limit on the size of files (LimitFSIZE=)"};
        case ELOOP:
        case ENOTDIR:
        case EISDIR:
        case EEXIST:
            return {errc::foreign_file, retry::after_change,
                    "; a file or link not created by exposure-agent already exists; move it away"};
        case EACCES:
        case EPERM:
            return {errc::disk, retry::after_change, "; grant the agent's user access"};
        case EROFS:
            return {errc::disk, retry::after_change,
                    "; make it writable for the agent (under systemd: ReadWritePaths=)"};
        case ENOENT:
            return {errc::disk, retry::after_change, "; create it, or correct the configuration"};
        case ENAMETOOLONG:
            return {errc::disk, retry::after_change, "; choose shorter names"};
        default:
            return {};
    }
}

}  // namespace

policy::failure from_errno(int error, std::string what)
{
    const meaning found = meaning_of(error);
    what += ": " + std::generic_category().message(error) + found.remedy;
    return {.code = found.code, .context = std::move(what), .kind = found.kind};
}

policy::failure foreign(const std::string& path, const std::string& what_it_is)
{
    return {.code = policy::errc::foreign_file,
            .context = path + " is " + what_it_is + " and was not changed; move it away",
            .kind = policy::retry::after_change};
}

namespace {

constexpr int open_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr std::size_t longest_name = 200;  // leaves room for the temporary suffix within NAME_MAX
constexpr std::string_view temporary_suffix = ".exposure-agent";
constexpr int deepest_tree = 16;  // ours have two levels
constexpr std::size_t most_names = 100'000;
constexpr int most_links = 16;  // on the path to one directory

std::string cannot(const char* do_what, const std::string& path)
{
    return std::string("cannot ") + do_what + " " + path;
}

policy::failure cannot_give(int error, const std::string& path, uid_t uid, gid_t gid)
{
    const std::string what =
        cannot("give", path) + " to user id " + std::to_string(uid) + ", group id " + std::to_string(gid);
    if (error != EPERM) return from_errno(error, what);
    return {.code = policy::errc::disk,
            .context = what +
                       ": changing the owner requires root (CAP_CHOWN), changing the group requires "
                       "membership in it",
            .kind = policy::retry::after_change};
}

policy::result<void> refuse_unless_plain(const std::string& name, const std::filesystem::path& where)
{
    if (is_plain_name(name)) return {};
    return policy::failure{.code = policy::errc::internal,
                           .context = "invalid name: it leaves the directory " + where.string(),
                           .kind = policy::retry::never};
}

std::filesystem::path without_slash(const std::filesystem::path& path)
{
    const auto normal = path.lexically_normal();
    return normal.has_filename() || !normal.has_relative_path() ? normal : normal.parent_path();
}

// One step of the walk along a path, opened only to continue from (O_PATH) and checked on that descriptor.
struct component {
    descriptor fd;
    struct stat facts = {};
};

policy::result<std::optional<component>> look_at(int above, const std::string& name, const std::string& path)
{
    component found{.fd = descriptor(openat(above, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC))};
    if (!found.fd && errno == ENOENT) return std::optional<component>();
    if (!found.fd || fstat(found.fd.get(), &found.facts) != 0)
        return from_errno(errno, cannot("open the directory", path));
    return std::optional(std::move(found));
}

policy::failure unsafe(const std::string& path, const std::string& why)
{
    return {.code = policy::errc::foreign_file,
            .context = path + " " + why +
                       "; another user could replace it. Give it to root (chown root, chmod go-w), or use "
                       "another path",
            .kind = policy::retry::after_change};
}

// Others must not be able to swap the entries of a directory on the path.
policy::result<void> refuse_if_swappable(const struct stat& facts, const std::string& path,
                                         const receiver& to)
{
    const bool trusted = facts.st_uid == 0 || facts.st_uid == geteuid() || facts.st_uid == to.uid;
    if (!trusted) return unsafe(path, "belongs to user " + io::user_name(facts.st_uid));
    if ((facts.st_mode & S_ISVTX) != 0) return {};
    if ((facts.st_mode & S_IWOTH) != 0) return unsafe(path, "is world-writable");
    if ((facts.st_mode & S_IWGRP) != 0 && facts.st_gid != to.gid) return unsafe(path, "is group-writable");
    return {};
}

std::string link_target(int link)
{
    std::string target(PATH_MAX, '\0');
    const auto size = readlinkat(link, "", target.data(), target.size());
    target.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return target;
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

using name_filter = std::function<bool(const std::string&)>;

policy::result<std::vector<std::string>> names_in(int fd, const std::string& path, const name_filter& wanted)
{
    // a separate descriptor, because reading moves the offset and closing the stream closes the descriptor
    descriptor copy(openat(fd, ".", open_flags));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy ? fdopendir(copy.get()) : nullptr, closedir);
    if (!stream) return from_errno(errno, cannot("list", path));
    copy.release();  // the stream owns it now

    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name == "." || name == ".." || !wanted(name)) continue;
        if (names.size() == most_names)
            return policy::failure{.code = policy::errc::foreign_file,
                                   .context = path + " contains more than " + std::to_string(most_names) +
                                              " entries named like the agent's; remove those that do not "
                                              "belong there",
                                   .kind = policy::retry::after_change};
        names.push_back(name);
    }
    if (errno != 0) return from_errno(errno, cannot("list", path));
    std::sort(names.begin(), names.end());
    return names;
}

// A kill between creating a directory and syncing its parent leaves the directory empty:
// the first entry in it needs that sync.
bool is_empty(int fd)
{
    descriptor copy(openat(fd, ".", open_flags));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy ? fdopendir(copy.get()) : nullptr, closedir);
    if (!stream) return false;
    copy.release();  // the stream owns it now
    while (const dirent* const entry = readdir(stream.get()))
        if (const std::string_view name = entry->d_name; name != "." && name != "..") return false;
    return true;
}

policy::result<void> remove_content(int fd, const std::string& path, int depth)
{
    if (depth == 0) return foreign(path, "nested too deeply");
    const auto names = names_in(fd, path, [](const std::string&) { return true; });
    if (!names) return names.error();
    for (const auto& name : *names)
        if (const auto removed = remove_entry(fd, name, path + "/" + name, depth); !removed) return removed;
    return {};
}

}  // namespace

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

policy::result<directory> directory::open(const std::filesystem::path& path, const receiver& to)
{
    return walk(path, nullptr, to);
}

policy::result<directory> directory::make_path(const std::filesystem::path& path, const access& wanted,
                                               const receiver& to)
{
    return walk(path, &wanted, to);
}

policy::result<directory> directory::walk(const std::filesystem::path& path, const access* make,
                                          const receiver& to)
{
    const auto plain = without_slash(path);
    auto above = walk_above(plain, make, to);
    if (!above) return above.error();
    auto& [here, name] = *above;
    if (name.empty()) return directory(std::move(here.fd_), plain);  // the root directory itself
    auto last = look_at(here.fd(), name, here.path_of(name));
    if (!last) return last.error();
    if (!*last && !make) return from_errno(ENOENT, cannot("open the directory", plain.string()));
    if (!*last) return here.create(name, *make);
    if (S_ISLNK((*last)->facts.st_mode)) return foreign(plain.string(), "a symbolic link");
    if (!S_ISDIR((*last)->facts.st_mode)) return foreign(plain.string(), "not a directory");
    if (make) here.remove_temporary(name);
    return here.enter(name);
}

// The directory above the end of the path, and the last name; empty for the root directory.
policy::result<std::pair<directory, std::string>> directory::walk_above(const std::filesystem::path& path,
                                                                        const access* make,
                                                                        const receiver& to, bool last_link)
{
    if (!path.is_absolute())
        return policy::failure{.code = policy::errc::config,
                               .context = path.string() + " is not an absolute path",
                               .kind = policy::retry::after_change};
    std::vector<std::string> left;  // reversed: the next component is the last element
    const auto go_on_with = [&left](const std::filesystem::path& way) {
        std::vector<std::string> names;
        for (const auto& name : way.relative_path())
            if (!name.empty() && name != ".") names.push_back(name.string());
        left.insert(left.end(), names.rbegin(), names.rend());
    };
    go_on_with(path);
    directory here(descriptor(::open("/", open_flags)), "/");
    for (int links = 0;;) {
        struct stat facts;
        if (!here.fd_ || fstat(here.fd(), &facts) != 0)
            return from_errno(errno, cannot("inspect", here.path_.string()));
        if (const auto safe = refuse_if_swappable(facts, here.path_.string(), to); !safe) return safe.error();
        if (left.empty()) return std::pair(std::move(here), std::string());
        const std::string name = left.back();
        if (left.size() == 1 && !last_link) return std::pair(std::move(here), name);
        left.pop_back();
        const std::string at = here.path_of(name);
        auto next = look_at(here.fd(), name, at);
        if (!next) return next.error();
        if (!*next && (left.empty() || !make)) {
            if (left.empty()) return std::pair(std::move(here), name);
            return from_errno(ENOENT, cannot("open the directory", at));
        }
        if (!*next) {
            auto made = here.create(name, *make);
            if (!made) return made.error();
            here = std::move(*made);
        } else if (S_ISLNK((*next)->facts.st_mode)) {
            const auto owner = (*next)->facts.st_uid;
            if (owner != 0 && owner != geteuid())
                return unsafe(at, "is a link of user " + io::user_name(owner));
            if (++links > most_links) return from_errno(ELOOP, cannot("open the directory", at));
            const std::filesystem::path target = link_target((*next)->fd.get());
            if (target.is_absolute()) here = directory(descriptor(::open("/", open_flags)), "/");
            go_on_with(target);
        } else if (left.empty()) {
            return std::pair(std::move(here), name);
        } else if (!S_ISDIR((*next)->facts.st_mode)) {
            return foreign(at, "not a directory");
        } else {
            if (make) here.remove_temporary(name);
            here = directory(std::move((*next)->fd), at);
        }
    }
}

policy::result<descriptor> open_program(const std::filesystem::path& path)
{
    auto above = directory::walk_above(path.lexically_normal(), nullptr, {}, true);
    if (!above) return above.error();
    const auto& [here, name] = *above;
    const std::string at = path.string();
    descriptor program(openat(here.fd(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts;
    if (!program || fstat(program.get(), &facts) != 0)
        return policy::failure{
            .code = policy::errc::disk,
            .context = at + (errno == ENOENT ? std::string(" does not exist")
                                             : ": " + std::generic_category().message(errno)),
            .kind = policy::retry::after_change};
    if (!S_ISREG(facts.st_mode))
        return policy::failure{.code = policy::errc::foreign_file,
                               .context = at + " is not a program; correct the path",
                               .kind = policy::retry::after_change};
    if (facts.st_uid != 0 && facts.st_uid != geteuid())
        return unsafe(at, "belongs to user " + io::user_name(facts.st_uid));
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return unsafe(at, "is writable by users other than its owner");
    return program;
}

policy::result<directory> directory::open_through_link(const std::filesystem::path& path)
{
    descriptor fd(::open(path.c_str(), open_flags));
    if (!fd) return from_errno(errno, cannot("open the directory", path.string()));
    return directory(std::move(fd), path);
}

policy::result<directory> directory::create(const std::string& name, const access& wanted) const
{
    if (const auto plain = refuse_unless_plain(name, path_); !plain) return plain.error();
    const std::string temporary = temporary_name(name);
    if (!entry_synced_ && is_empty(fd()))
        if (const descriptor above(openat(fd(), "..", open_flags)); above && fsync(above.get()) != 0)
            return from_errno(errno, cannot("sync the directory above", path_.string()));
    io::crash_point("disk.directory.before");
    // create with the final mode: a set-group-id bit inherited from the parent is lost in a chmod by
    // a process outside the group
    if (mkdirat(fd(), temporary.c_str(), wanted.mode) != 0 && errno != EEXIST)
        return from_errno(errno, cannot("create the directory", path_of(name)));
    descriptor made(openat(fd(), temporary.c_str(), open_flags | O_NOFOLLOW));
    if (!made && errno == ENOENT && has(name)) return enter(name);
    if (!made) return from_errno(errno, cannot("open the directory", path_of(temporary)));
    // a directory that another user put there instead must not be opened up to others
    const auto inside = names_in(made.get(), path_of(temporary), [](const std::string&) { return true; });
    if (!inside) return inside.error();
    if (!inside->empty() && has(name)) return enter(name);  // another thread has created and filled it
    if (!inside->empty()) return foreign(path_of(temporary), "not created by exposure-agent");
    if (const auto set = set_access(made.get(), wanted, path_of(temporary)); !set) return set.error();
    io::crash_point("disk.directory.made");
    // never replace one that another thread has just created: what it writes there would be lost
    if (renameat2(fd(), temporary.c_str(), fd(), name.c_str(), RENAME_NOREPLACE) != 0) {
        const int failed = errno;
        const bool made_meanwhile = (failed == EEXIST || failed == ENOENT) && has(name);
        if (failed == EEXIST) unlinkat(fd(), temporary.c_str(), AT_REMOVEDIR);
        if (made_meanwhile) return enter(name);
        return from_errno(failed, cannot("create the directory", path_of(name)));
    }
    if (const auto synced = sync(); !synced) return synced.error();
    io::crash_point("disk.directory.after");
    directory there(std::move(made), path_of(name));
    there.entry_synced_ = true;
    return there;
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
    remove_temporary(name);
    auto there = enter(name);
    if (!there) return there;
    if (is_empty(there->fd()))
        if (const auto synced = sync(); !synced) return synced.error();
    if (const auto set = set_access(there->fd(), wanted, path_of(name)); !set) return set.error();
    return there;
}

// A kill while two threads create the same directory may leave the temporary one of the second thread.
void directory::remove_temporary(const std::string& name) const
{
    unlinkat(fd(), temporary_name(name).c_str(), AT_REMOVEDIR);
}

bool directory::has(const std::string& name) const
{
    struct stat facts;
    return is_plain_name(name) && fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

policy::result<std::vector<std::string>> directory::names(const name_filter& wanted) const
{
    return names_in(fd(), path_.string(), wanted);
}

policy::result<void> directory::sync() const
{
    // a directory on the path is open with O_PATH, which cannot be synced
    const descriptor again(openat(fd(), ".", open_flags));
    if (again && fsync(again.get()) == 0) return {};
    return from_errno(errno, cannot("sync the directory", path_.string()));
}

policy::result<void> set_access(int fd, const access& wanted, const std::string& path)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) return from_errno(errno, cannot("inspect", path));
    // a directory created in a set-group-id directory inherits its group and the bit; keep both
    const mode_t inherited = S_ISDIR(facts.st_mode) ? facts.st_mode & S_ISGID : 0;
    const mode_t mode = wanted.mode | inherited;
    const uid_t uid = wanted.uid.value_or(geteuid());
    const gid_t gid = wanted.gid.value_or(inherited != 0 ? facts.st_gid : getegid());
    if (facts.st_uid != uid && facts.st_uid != geteuid()) return foreign(path, "owned by another user");
    // an ACL inherited from a default ACL would let others in through the mode's group bits
    constexpr const char* acl = "system.posix_acl_access";
    // removing an ACL that is not there succeeds too, and the sandbox refuses a chmod with the
    // set-group-id bit
    const bool had_acl = fgetxattr(fd, acl, nullptr, 0) > 0 && fremovexattr(fd, acl) == 0;
    const bool give = facts.st_uid != uid || facts.st_gid != gid;
    if (give && fchown(fd, uid, gid) != 0) return cannot_give(errno, path, uid, gid);
    // chown clears the set-id bits, so set the mode after it
    if ((had_acl || give || (facts.st_mode & 07777) != mode) && fchmod(fd, mode) != 0)
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

policy::result<void> remove_leftover(const directory& where, const std::string& name, const name_filter& ours)
{
    const std::string temporary = temporary_name(name);
    if (unlinkat(where.fd(), temporary.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR) return from_errno(errno, cannot("remove", where.path_of(temporary)));
    const auto left = where.enter(temporary);
    if (!left) return left.error();
    const auto names = left->names(ours);
    if (!names) return names.error();
    for (const auto& one : *names)
        unlinkat(left->fd(), one.c_str(), 0);
    if (unlinkat(where.fd(), temporary.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    return foreign(where.path_of(temporary), "not created by exposure-agent");
}

}  // namespace disk
