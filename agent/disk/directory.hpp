#pragma once

#include "policy/result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

// Directories held open: what is done in one cannot be led elsewhere by renaming or linking its path
// meanwhile.

namespace disk {

// Owns a file descriptor.
class descriptor {
public:
    explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor();

    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_;
};

// Who may do what with a file or directory that we make. The mode is exact: no umask is taken off. Owner and
// group unset: whoever runs the agent.
struct access {
    mode_t mode = 0600;
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};

    bool operator==(const access&) const = default;
};

// A name within a directory: not empty, not "." or "..", without "/" and control characters, at most 200
// bytes.
bool is_plain_name(std::string_view name) noexcept;

// What a file, link or directory is called before it is renamed into place. One per name, so that a crash
// leaves nothing that the next write does not clean up.
std::string temporary_name(const std::string& name);

class directory {
public:
    // errc::foreign_file: the last component is a link or no directory. Links on the way are followed.
    [[nodiscard]] static policy::result<directory> open(const std::filesystem::path&);

    // The same, a link at the end being followed: for a state directory that systemd made a link.
    [[nodiscard]] static policy::result<directory> open_through_link(const std::filesystem::path&);

    // Missing directories on the way, and it itself, are made with this access; those that exist stay as they
    // are. The path is absolute.
    [[nodiscard]] static policy::result<directory> make_path(const std::filesystem::path&, const access&);

    // A directory in this one. errc::foreign_file: a link or no directory.
    [[nodiscard]] policy::result<directory> enter(const std::string& name) const;

    // The same, made if missing, and put right if it has another mode. errc::foreign_file also: it belongs to
    // somebody else.
    [[nodiscard]] policy::result<directory> make(const std::string& name, const access&) const;

    [[nodiscard]] bool has(const std::string& name) const;

    // Everything in it, sorted, hidden names too.
    [[nodiscard]] policy::result<std::vector<std::string>> names() const;

    // To stable storage: what was created, renamed or removed in it.
    [[nodiscard]] policy::result<void> sync() const;

    int fd() const noexcept { return fd_.get(); }
    const std::filesystem::path& path() const noexcept { return path_; }  // for messages
    std::string path_of(const std::string& name) const { return (path_ / name).string(); }

private:
    directory(descriptor fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
    [[nodiscard]] policy::result<directory> create(const std::string& name, const access&) const;

    descriptor fd_;
    std::filesystem::path path_;
};

// Sets mode and owner where they differ; `path` is for messages. errc::foreign_file: it belongs to somebody
// who is neither us nor the owner that is wanted.
[[nodiscard]] policy::result<void> set_access(int fd, const access&, const std::string& path);

// Removes a directory of ours with all that is in it. Links in it are removed, never followed. Gone already
// is success; errc::foreign_file: it is a link or no directory.
[[nodiscard]] policy::result<void> remove_tree(const directory& parent, const std::string& name);

// Removes what a crash left behind under temporary names.
[[nodiscard]] policy::result<void> remove_leftovers(const directory&);

}  // namespace disk
