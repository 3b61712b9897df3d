#include "agent/disk/files.hpp"

#include "agent/disk/directory.hpp"
#include "agent/io/crash_point.hpp"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace disk {
namespace {

constexpr std::size_t entry_bytes = 64 << 10;  // for one entry of the user or group database

std::optional<std::uint32_t> number(const std::string& text)
{
    std::uint32_t value = 0;
    const auto* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end) return std::nullopt;
    return value;
}

policy::failure unknown(const char* what, const std::string& name)
{
    return {.code = policy::errc::config,
            .context = std::string("this host has no ") + what + " \"" + name +
                       "\": create it, or correct output." + (what[0] == 'u' ? "owner" : "group"),
            .kind = policy::retry::after_change};
}

policy::failure cannot(const char* do_what, const std::string& path)
{
    return from_errno(errno, std::string("cannot ") + do_what + " " + path);
}

}  // namespace

policy::result<access> access_for(const policy::file_access& wanted)
{
    access found{.mode = wanted.mode};
    std::vector<char> buffer(entry_bytes);
    if (wanted.owner) {
        passwd entry{};
        passwd* user = nullptr;
        getpwnam_r(wanted.owner->c_str(), &entry, buffer.data(), buffer.size(), &user);
        if (user != nullptr) found.uid = user->pw_uid;
        if (user == nullptr) found.uid = number(*wanted.owner);
        if (!found.uid) return unknown("user", *wanted.owner);
    }
    if (wanted.group) {
        group entry{};
        group* all = nullptr;
        getgrnam_r(wanted.group->c_str(), &entry, buffer.data(), buffer.size(), &all);
        if (all != nullptr) found.gid = all->gr_gid;
        if (all == nullptr) found.gid = number(*wanted.group);
        if (!found.gid) return unknown("group", *wanted.group);
    }
    return found;
}

// --- Reading

namespace {

constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // opening a FIFO must not block

policy::result<std::string> read_all(int fd, std::size_t limit, const std::string& path)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) return cannot("inspect", path);
    if (!S_ISREG(facts.st_mode))
        return policy::failure{.code = policy::errc::foreign_file,
                               .context = path + " is not a regular file",
                               .kind = policy::retry::after_change};
    const auto too_large = [&] {
        return policy::failure{.code = policy::errc::disk,
                               .context = path + " is larger than " + std::to_string(limit) + " bytes",
                               .kind = policy::retry::after_change};
    };
    if (static_cast<std::size_t>(facts.st_size) > limit) return too_large();

    auto content = io::read_bounded(fd, limit);
    if (!content && errno == EAGAIN)
        return policy::failure{.code = policy::errc::disk,
                               .context = path + " changed while it was being read"};
    if (!content) return cannot("read", path);
    if (content->size() > limit) return too_large();
    return std::move(*content);
}

policy::result<std::optional<std::string>> read_opened(const descriptor& file, std::size_t limit,
                                                       const std::string& path)
{
    if (!file && errno == ENOENT) return std::optional<std::string>();
    if (!file && errno == ELOOP) return foreign(path, "a symbolic link");
    if (!file) return cannot("open", path);
    auto content = read_all(file.get(), limit, path);
    if (!content) return content.error();
    return std::optional(std::move(*content));
}

}  // namespace

policy::result<std::optional<std::string>> read_file(const directory& where, const std::string& name,
                                                     std::size_t limit)
{
    if (!is_plain_name(name)) return foreign(where.path_of(name), "not a valid file name");
    const descriptor file(openat(where.fd(), name.c_str(), read_flags | O_NOFOLLOW));
    return read_opened(file, limit, where.path_of(name));
}

policy::result<std::optional<std::string>> read_file(const std::filesystem::path& path, std::size_t limit)
{
    const descriptor file(open(path.c_str(), read_flags));
    return read_opened(file, limit, path.string());
}

policy::result<std::string> read_descriptor(int fd, std::size_t limit, const std::string& path)
{
    return read_all(fd, limit, path);
}

policy::result<std::optional<std::string>> read_own_file(const std::filesystem::path& path, std::size_t limit)
{
    const descriptor file(open(path.c_str(), read_flags | O_NOFOLLOW));
    struct stat facts;
    if (file && (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
                 facts.st_nlink != 1 || (facts.st_mode & 077) != 0))
        return std::optional<std::string>();
    return read_opened(file, limit, path.string());
}

policy::result<std::optional<std::string>> read_link(const directory& where, const std::string& name)
{
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(where.fd(), name.c_str(), target.data(), target.size());
    if (size < 0 && errno == ENOENT) return std::optional<std::string>();
    if (size < 0 && errno == EINVAL) return foreign(where.path_of(name), "not a symbolic link");
    if (size < 0) return cannot("read the link", where.path_of(name));
    target.resize(static_cast<std::size_t>(size));
    return std::optional(std::move(target));
}

// --- Writing

namespace {

enum class kind { nothing, file, link, other };

struct look {
    kind what = kind::nothing;
    uid_t owner = 0;
};

policy::result<look> look_at(const directory& where, const std::string& name)
{
    if (!is_plain_name(name))
        return policy::failure{.code = policy::errc::internal,
                               .context = "invalid name: it leaves the directory " + where.path().string(),
                               .kind = policy::retry::never};
    struct stat facts;
    if (fstatat(where.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return look{};
        return cannot("inspect", where.path_of(name));
    }
    const kind what = S_ISREG(facts.st_mode) ? kind::file : S_ISLNK(facts.st_mode) ? kind::link : kind::other;
    return look{.what = what, .owner = facts.st_uid};
}

// A file in its place is ours, or one that was given away. Root cannot tell to whom it once gave
// a file, so root accepts any regular file.
policy::result<void> refuse_foreign(const directory& where, const std::string& name, const access& wanted)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what == kind::link) return foreign(where.path_of(name), "a symbolic link");
    if (there->what == kind::other) return foreign(where.path_of(name), "not a regular file");
    const bool ours = geteuid() == 0 || there->owner == geteuid() || there->owner == wanted.uid;
    if (there->what == kind::file && !ours) return foreign(where.path_of(name), "owned by another user");
    return {};
}

bool write_all(int fd, std::string_view content)
{
    while (!content.empty()) {
        const ssize_t written = write(fd, content.data(), content.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

policy::result<void> fill(int fd, std::string_view content, const access& wanted, const std::string& path)
{
    if (const auto set = set_access(fd, wanted, path); !set) return set;
    io::crash_point("disk.write.opened");
    if (!write_all(fd, content)) return cannot("write", path);
    io::crash_point("disk.write.unsynced");
    if (fsync(fd) != 0) return cannot("sync", path);
    return {};
}

// Creates a new file; removes it again if it cannot be completed.
policy::result<void> create(const directory& where, const std::string& name, std::string_view content,
                            const access& wanted, const std::string& shown)
{
    io::crash_point("disk.write.before");
    const descriptor file(
        openat(where.fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return cannot("create", shown);
    auto filled = fill(file.get(), content, wanted, shown);
    if (!filled) unlinkat(where.fd(), name.c_str(), 0);
    io::crash_point("disk.write.after");
    return filled;
}

// Removes what a crash left under this name; if it is a directory, creating the file fails next.
void remove_stale(const directory& where, const std::string& temporary)
{
    unlinkat(where.fd(), temporary.c_str(), 0);
}

policy::result<void> move_into_place(const directory& where, const std::string& from, const std::string& to,
                                     unsigned flags)
{
    io::crash_point("disk.rename.before");
    if (renameat2(where.fd(), from.c_str(), where.fd(), to.c_str(), flags) != 0) {
        if (errno == EEXIST) return foreign(where.path_of(to), "already present");
        return cannot("rename to", where.path_of(to));
    }
    io::crash_point("disk.rename.after");
    return where.sync();
}

}  // namespace

policy::result<void> create_file(const directory& where, const std::string& name, std::string_view content,
                                 const access& wanted)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what != kind::nothing) return foreign(where.path_of(name), "already present");
    return create(where, name, content, wanted, where.path_of(name));
}

policy::result<void> write_file(const directory& where, const std::string& name, std::string_view content,
                                const access& wanted)
{
    if (const auto free = refuse_foreign(where, name, wanted); !free) return free;
    const std::string temporary = temporary_name(name);
    remove_stale(where, temporary);
    if (const auto made = create(where, temporary, content, wanted, where.path_of(name)); !made) return made;
    auto moved = move_into_place(where, temporary, name, 0);
    if (!moved) remove_stale(where, temporary);
    return moved;
}

policy::result<void> write_file(const std::filesystem::path& path, std::string_view content,
                                const access& wanted)
{
    const auto where = directory::open(path.parent_path(), {.uid = wanted.uid, .gid = wanted.gid});
    if (!where) return where.error();
    return write_file(*where, path.filename().string(), content, wanted);
}

// One descriptor: the file that is checked is the file that is changed. A wrong file is
// rewritten, by renaming over whatever has its name.
policy::result<bool> update_file(const directory& where, const std::string& name, std::string_view content,
                                 const access& wanted)
{
    return update_file(
        where, name, wanted,
        [&](int fd) {
            auto held = read_descriptor(fd, content.size(), where.path_of(name));
            const bool same = held && *held == content;
            if (held) crypto::wipe(*held);
            return same;
        },
        [&]() -> policy::result<crypto::secret> { return crypto::secret(content); });
}

policy::result<bool> update_file(const directory& where, const std::string& name, const access& wanted,
                                 const std::function<bool(int)>& is_right,
                                 const std::function<policy::result<crypto::secret>()>& content)
{
    if (const auto free = refuse_foreign(where, name, wanted); !free) return free.error();
    const descriptor file(
        openat(where.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat facts;
    if (file && fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1 &&
        (facts.st_uid == geteuid() || facts.st_uid == wanted.uid) && is_right(file.get()))
        // a file that cannot be corrected in place (root gave it away) is rewritten
        if (set_access(file.get(), wanted, where.path_of(name))) return false;
    const auto text = content();
    if (!text) return text.error();
    if (const auto written = write_file(where, name, text->view(), wanted); !written) return written.error();
    return true;
}

policy::result<void> replace_link(const directory& where, const std::string& name, const std::string& target)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what == kind::file || there->what == kind::other)
        return foreign(where.path_of(name), "not a symbolic link");
    if (there->what == kind::link)
        if (const auto held = read_link(where, name); held && *held == target)
            return where.sync();  // a kill may have come between the rename and the sync

    const std::string temporary = temporary_name(name);
    remove_stale(where, temporary);
    io::crash_point("disk.link.before");
    if (symlinkat(target.c_str(), where.fd(), temporary.c_str()) != 0)
        return cannot("create the link", where.path_of(name));
    auto moved = move_into_place(where, temporary, name, 0);
    if (!moved) remove_stale(where, temporary);
    return moved;
}

policy::result<void> remove_file(const directory& where, const std::string& name)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what == kind::nothing) return {};
    if (there->what == kind::other) return foreign(where.path_of(name), "neither a file nor a link");
    io::crash_point("disk.remove.before");
    if (unlinkat(where.fd(), name.c_str(), 0) != 0 && errno != ENOENT)
        return cannot("remove", where.path_of(name));
    if (const auto synced = where.sync(); !synced) return synced;
    io::crash_point("disk.remove.after");
    return {};
}

policy::result<void> rename_into_place(const directory& where, const std::string& from, const std::string& to)
{
    for (const auto& name : {from, to})
        if (const auto plain = look_at(where, name); !plain) return plain.error();
    return move_into_place(where, from, to, RENAME_NOREPLACE);
}

}  // namespace disk
