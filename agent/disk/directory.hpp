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

// The one place where errno becomes a failure.

namespace disk {

// "what: the system's words; what to do". ENOSPC, EDQUOT and EFBIG are errc::disk_full, ELOOP, ENOTDIR,
// EISDIR and EEXIST (something of another kind stands there) errc::foreign_file, everything else errc::disk.
policy::failure from_errno(int error, std::string what);

// errc::foreign_file: "path is <what it is>; it is left alone: move it away".
policy::failure foreign(const std::string& path, const std::string& what_it_is);

// --- Directories held open: what is done in one cannot be led elsewhere by renaming or linking its path
// meanwhile.

using io::descriptor;

// Who may do what with a file or directory that we make. The mode is exact: no umask is taken off. Owner and
// group unset: whoever runs the agent.
struct access {
    mode_t mode = 0600;
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};

    bool operator==(const access&) const = default;
};

// Whom a path leads to: directories on the way may be theirs, too.
struct receiver {
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};
};

// A name within a directory: not empty, not "." or "..", without "/" and control characters, at most 200
// bytes.
bool is_plain_name(std::string_view name) noexcept;

// What a file, link or directory is called before it is renamed into place. One per name, so that a crash
// leaves nothing that the next write does not clean up.
std::string temporary_name(const std::string& name);

class directory {
public:
    // Walks an absolute path component by component, so that nobody can lead it elsewhere: a link on the way
    // is followed only if root or we own it, and a directory on the way is refused, by its name, if others
    // could swap what is in it (it belongs to somebody who is neither root, nor we, nor the receiver, or
    // group or others may write to it and it is not sticky). errc::foreign_file, also: the last component is
    // a link or no directory. errc::disk, ENOENT's sentence: it is not there.
    [[nodiscard]] static policy::result<directory> open(const std::filesystem::path&, const receiver& = {});

    // The same, a link at the end being followed: for a state directory that systemd made a link.
    [[nodiscard]] static policy::result<directory> open_through_link(const std::filesystem::path&);

    // The same walk; missing directories on the way, and it itself, are made with this access, those that
    // exist stay as they are.
    [[nodiscard]] static policy::result<directory> make_path(const std::filesystem::path&, const access&,
                                                             const receiver& = {});

    // A directory in this one. errc::foreign_file: a link or no directory.
    [[nodiscard]] policy::result<directory> enter(const std::string& name) const;

    // The same, made if missing, and put right if it has another mode. errc::foreign_file also: it belongs to
    // somebody else.
    [[nodiscard]] policy::result<directory> make(const std::string& name, const access&) const;

    [[nodiscard]] bool has(const std::string& name) const;

    // The names in it that are asked for, sorted, hidden ones too. Others may have filled the directory: what
    // is not asked for costs no memory, and 100,000 that are, are an error.
    [[nodiscard]] policy::result<std::vector<std::string>> names(
        const std::function<bool(const std::string&)>& wanted = [](const std::string&) {
            return true;
        }) const;

    // To stable storage: what was created, renamed or removed in it.
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

    descriptor fd_;
    std::filesystem::path path_;
};

// A program that only root, or whoever runs this, can change, found by the same walk; links at the end are
// followed likewise. What is executed is this descriptor, not the path again. errc::foreign_file, disk.
[[nodiscard]] policy::result<descriptor> open_program(const std::filesystem::path&);

// Sets mode and owner where they differ; `path` is for messages. errc::foreign_file: it belongs to somebody
// who is neither us nor the owner that is wanted.
[[nodiscard]] policy::result<void> set_access(int fd, const access&, const std::string& path);

// Removes a directory of ours with all that is in it. Links in it are removed, never followed. Gone already
// is success; errc::foreign_file: it is a link or no directory.
[[nodiscard]] policy::result<void> remove_tree(const directory& parent, const std::string& name);

// Removes what a crash left behind while `name` was written: a file or a link, or a directory with files of
// these names in it. Whatever else has that name is left alone.
[[nodiscard]] policy::result<void> remove_leftover(const directory&, const std::string& name,
                                                   const std::function<bool(const std::string&)>& ours);

}  // namespace disk
