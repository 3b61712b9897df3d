#pragma once

#include "agent/disk/directory.hpp"
#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace disk {

// The configured owner, group and mode as numbers; names may be given as numbers. Unset stays
// unset. errc::config: no such user or group on this host.
[[nodiscard]] policy::result<access> access_for(const policy::file_access&);

// --- Bounded reads. A missing file is an answer, not a failure.

// Where the link points; none if the name does not exist. errc::foreign_file: not a link.
[[nodiscard]] policy::result<std::optional<std::string>> read_link(const directory&, const std::string& name);

// One of our files; none if the name does not exist. errc::foreign_file: a link, or not a
// regular file. errc::disk: larger than the limit.
[[nodiscard]] policy::result<std::optional<std::string>> read_file(const directory&, const std::string& name,
                                                                   std::size_t limit);

// The rest of an open regular file; fails if it is larger than the limit. `path` is for messages.
[[nodiscard]] policy::result<std::string> read_descriptor(int fd, std::size_t limit, const std::string& path);

// A file, by path, that only we can have written; none if it is missing or others could have written it.
[[nodiscard]] policy::result<std::optional<std::string>> read_own_file(const std::filesystem::path&,
                                                                       std::size_t limit);

// A file of any owner, for example one that the configuration names; follows links.
[[nodiscard]] policy::result<std::optional<std::string>> read_file(const std::filesystem::path&,
                                                                   std::size_t limit);

// --- All writes go through here. Whatever is renamed into place is complete, has its owner and
// mode, and is on stable storage; a crash leaves the old or the new version, never a part.
// Failures: errc::disk_full, errc::disk, and errc::foreign_file if something that we did not
// create is in its place; that is never followed or overwritten.

// Writes the file, replacing one of ours: temporary file (0600), owner and mode, content, fsync,
// rename, fsync of the directory.
[[nodiscard]] policy::result<void> write_file(const directory&, const std::string& name,
                                              std::string_view content, const access&);
[[nodiscard]] policy::result<void> write_file(const std::filesystem::path&, std::string_view content,
                                              const access&);

// The same, unless the file already has this content: then it keeps its inode and mtime, and
// only a wrong owner or mode is corrected. Returns whether it was written.
[[nodiscard]] policy::result<bool> update_file(const directory&, const std::string& name,
                                               std::string_view content, const access&);

// The same for content that differs each time it is made: `is_right` checks the open file,
// `content` makes a new one.
[[nodiscard]] policy::result<bool> update_file(
    const directory&, const std::string& name, const access&, const std::function<bool(int fd)>& is_right,
    const std::function<policy::result<crypto::secret>()>& content);

// Creates a file in a directory that nobody reads before it is renamed: owner and mode, content,
// fsync. A crash may leave a partial file. The caller syncs the directory once for all files.
[[nodiscard]] policy::result<void> create_file(const directory&, const std::string& name,
                                               std::string_view content, const access&);

// Points the symbolic link at `target` with one rename; a link that already points there is not
// touched. errc::foreign_file: a file or directory has this name.
[[nodiscard]] policy::result<void> replace_link(const directory&, const std::string& name,
                                                const std::string& target);

// Removes a file or a link; succeeds if it is already gone. errc::foreign_file: a directory.
[[nodiscard]] policy::result<void> remove_file(const directory&, const std::string& name);

// Renames within one directory and syncs it: a staged directory becomes visible in one step.
// Never replaces anything: errc::foreign_file if `to` exists.
[[nodiscard]] policy::result<void> rename_into_place(const directory&, const std::string& from,
                                                     const std::string& to);

}  // namespace disk
