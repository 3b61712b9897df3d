#pragma once

#include "agent/io/descriptor.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

// The only place that converts errno to a failure.

namespace disk {

// "what: the system's message; what to do". ENOSPC, EDQUOT and EFBIG are errc::disk_full, ELOOP, ENOTDIR,
// EISDIR and EEXIST (something else has that name) errc::foreign_file, everything else errc::disk.
policy::failure from_errno(int error, std::string what);

// errc::foreign_file: "path is <what it is>; it is left alone: move it away".
policy::failure foreign(const std::string& path, const std::string& what_it_is);

// --- Directories held open: renaming or linking a path in the meantime cannot redirect what is
// done in its directory.

using io::descriptor;

// Permissions of a file or directory that we create. The mode is exact, without the umask. Unset
// owner and group: those of the agent's user.
struct access {
    mode_t mode = 0600;
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};

    bool operator==(const access&) const = default;
};

// The user and group whose files a path leads to: directories on the path may belong to them, too.
struct receiver {
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};
};

// A name within a directory: not empty, not "." or "..", without "/" and control characters, at
// most 200 bytes.
bool is_plain_name(std::string_view name) noexcept;

// The name of a file, link or directory until it is renamed into place. One per name, so that
// the next write cleans up whatever a crash leaves.
std::string temporary_name(const std::string& name);

class directory {
public:
    // Walks an absolute path component by component, so that nobody can redirect it. A link on the path
    // is followed only if root or we own it; a directory on the path is refused, by name, if others
    // could swap its entries (it belongs to anyone other than root, us or the receiver, or it is
    // writable by group or others and not sticky). errc::foreign_file also if the last component is a
    // link or not a directory. errc::disk with the message of ENOENT if it does not exist.
    [[nodiscard]] static policy::result<directory> open(const std::filesystem::path&, const receiver& = {});

    // The same, but follows a link at the end: systemd may make the state directory a link.
    [[nodiscard]] static policy::result<directory> open_through_link(const std::filesystem::path&);

    // The same walk. Creates missing directories, including the last, with this access; existing
    // ones are not changed.
    [[nodiscard]] static policy::result<directory> make_path(const std::filesystem::path&, const access&,
                                                             const receiver& = {});

    // Opens a subdirectory. errc::foreign_file: a link or not a directory.
    [[nodiscard]] policy::result<directory> enter(const std::string& name) const;

    // The same; creates it if missing and corrects its access. errc::foreign_file also if it belongs
    // to another user.
    [[nodiscard]] policy::result<directory> make(const std::string& name, const access&) const;

    [[nodiscard]] bool has(const std::string& name) const;

    // The wanted names in it, sorted, including hidden ones. Others may have filled the directory:
    // unwanted names cost no memory, and 100,000 wanted ones are an error.
    [[nodiscard]] policy::result<std::vector<std::string>> names(
        const std::function<bool(const std::string&)>& wanted = [](const std::string&) {
            return true;
        }) const;

    // Flushes what was created, renamed or removed in it to stable storage.
    [[nodiscard]] policy::result<void> sync() const;

    int fd() const noexcept { return fd_.get(); }
    const std::filesystem::path& path() const noexcept { return path_; }  // for messages
    std::string path_of(const std::string& name) const { return (path_ / name).string(); }

private:
    directory(descriptor fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
    [[nodiscard]] static policy::result<directory> walk(const std::filesystem::path&, const access* make,
                                                        const receiver&);
    [[nodiscard]] static policy::result<std::pair<directory, std::string>> walk_above(
        const std::filesystem::path&, const access* make, const receiver&, bool last_link = false);
    friend policy::result<descriptor> open_program(const std::filesystem::path&);
    [[nodiscard]] policy::result<directory> create(const std::string& name, const access&) const;
    void remove_temporary(const std::string& name) const;

    descriptor fd_;
    std::filesystem::path path_;
    bool entry_synced_ = false;  // we created it, and its entry is on stable storage
};

// Opens a program that only root or the current user can change, by the same walk and the same rule
// for links. Execute this descriptor instead of opening the path again. errc::foreign_file, disk.
[[nodiscard]] policy::result<descriptor> open_program(const std::filesystem::path&);

// Sets mode and owner where they differ; `path` is for messages. errc::foreign_file: it belongs
// to anyone other than us or the wanted owner.
[[nodiscard]] policy::result<void> set_access(int fd, const access&, const std::string& path);

// Removes one of our directories with everything in it. Links in it are removed, never followed.
// Succeeds if it is already gone; errc::foreign_file: it is a link or not a directory.
[[nodiscard]] policy::result<void> remove_tree(const directory& parent, const std::string& name);

// Removes what a crash left behind while `name` was written: a file, a link, or a directory that
// contains files with our names. Anything else of that name is left alone.
[[nodiscard]] policy::result<void> remove_leftover(const directory&, const std::string& name,
                                                   const std::function<bool(const std::string&)>& ours);

}  // namespace disk
