#include "agent/disk/atomic_file.hpp"

#include "agent/disk/errors.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/io/crash_point.hpp"

#include <cerrno>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace disk {
namespace {

policy::failure cannot(const char* do_what, const std::string& path)
{
    return from_errno(errno, std::string("cannot ") + do_what + " " + path);
}

enum class kind { nothing, file, link, other };

struct look {
    kind what = kind::nothing;
    uid_t owner = 0;
};

policy::result<look> look_at(const directory& where, const std::string& name)
{
    if (!is_plain_name(name))
        return policy::failure{
            .code = policy::errc::internal,
            .context = "a name that leads out of " + where.path().string() + " was refused",
            .kind = policy::retry::never};
    struct stat facts;
    if (fstatat(where.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return look{};
        return cannot("look at", where.path_of(name));
    }
    const kind what = S_ISREG(facts.st_mode) ? kind::file : S_ISLNK(facts.st_mode) ? kind::link : kind::other;
    return look{.what = what, .owner = facts.st_uid};
}

// A file may stand there: ours, or one that was given away. Root cannot tell whose file it once gave away, so
// for root any regular file will do.
policy::result<void> refuse_foreign(const directory& where, const std::string& name, const access& wanted)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what == kind::link) return foreign(where.path_of(name), "a link");
    if (there->what == kind::other) return foreign(where.path_of(name), "no regular file");
    const bool ours = geteuid() == 0 || there->owner == geteuid() || there->owner == wanted.uid;
    if (there->what == kind::file && !ours) return foreign(where.path_of(name), "somebody else's");
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

// A file that did not exist before; it is removed again when it cannot be completed.
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

// What a crash left under this name; a directory there fails the creation that follows.
void remove_stale(const directory& where, const std::string& temporary)
{
    unlinkat(where.fd(), temporary.c_str(), 0);
}

policy::result<void> move_into_place(const directory& where, const std::string& from, const std::string& to,
                                     unsigned flags)
{
    io::crash_point("disk.rename.before");
    if (renameat2(where.fd(), from.c_str(), where.fd(), to.c_str(), flags) != 0) {
        if (errno == EEXIST) return foreign(where.path_of(to), "already there");
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
    if (there->what != kind::nothing) return foreign(where.path_of(name), "already there");
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

// One descriptor: what is judged is what is changed. A file that is not right is written again, by a rename
// over whatever has its name.
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
        // what cannot be put right in place (root gave it away to somebody else) is written again
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
        return foreign(where.path_of(name), "no link");
    if (there->what == kind::link)
        if (const auto held = read_link(where, name); held && *held == target) return {};

    const std::string temporary = temporary_name(name);
    remove_stale(where, temporary);
    io::crash_point("disk.link.before");
    if (symlinkat(target.c_str(), where.fd(), temporary.c_str()) != 0)
        return cannot("make the link", where.path_of(name));
    auto moved = move_into_place(where, temporary, name, 0);
    if (!moved) remove_stale(where, temporary);
    return moved;
}

policy::result<void> remove_file(const directory& where, const std::string& name)
{
    const auto there = look_at(where, name);
    if (!there) return there.error();
    if (there->what == kind::nothing) return {};
    if (there->what == kind::other) return foreign(where.path_of(name), "neither file nor link");
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
