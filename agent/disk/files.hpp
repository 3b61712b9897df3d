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

// The configured owner, group and mode as the system's numbers; a name may be a number. Unset stays unset.
// errc::config: this host has no such user or group.
[[nodiscard]] policy::result<access> access_for(const policy::file_access&);

// A user's name for people; #UID, as sudo takes it, when the system knows none.
std::string user_text(uid_t);

// --- Reading, bounded. That something is not there is an answer, not a failure.

// Where the link points; none: there is no such name. errc::foreign_file: it is no link.
[[nodiscard]] policy::result<std::optional<std::string>> read_link(const directory&, const std::string& name);

// A file of ours; none: there is no such name. errc::foreign_file: a link, or no regular file. errc::disk:
// larger than the limit.
[[nodiscard]] policy::result<std::optional<std::string>> read_file(const directory&, const std::string& name,
                                                                   std::size_t limit);

// The rest of an open regular file; a failure when it is larger than the limit. `path` is for messages.
[[nodiscard]] policy::result<std::string> read_descriptor(int fd, std::size_t limit, const std::string& path);

// A file that we alone can have written, by its path; none also: another one of this name.
[[nodiscard]] policy::result<std::optional<std::string>> read_own_file(const std::filesystem::path&,
                                                                       std::size_t limit);

// Somebody's file, e.g. one that the configuration names; links are followed.
[[nodiscard]] policy::result<std::optional<std::string>> read_file(const std::filesystem::path&,
                                                                   std::size_t limit);

// --- The one door to writing. Whatever is renamed into place is complete, has its owner and mode, and is on
// stable storage; a crash leaves the old or the new, never a part. Failures: errc::disk_full, errc::disk, and
// errc::foreign_file when something stands there that we did not put there; it is never followed or
// overwritten.

// Writes the file, replacing one of ours: temporary file (0600), owner and mode, content, fsync, rename,
// fsync of the directory.
[[nodiscard]] policy::result<void> write_file(const directory&, const std::string& name,
                                              std::string_view content, const access&);
[[nodiscard]] policy::result<void> write_file(const std::filesystem::path&, std::string_view content,
                                              const access&);

// The same, unless it already holds this content: then it keeps its inode and mtime, and only a changed owner
// or mode is put right. Says whether it was written.
[[nodiscard]] policy::result<bool> update_file(const directory&, const std::string& name,
                                               std::string_view content, const access&);

// The same for content that is never the same twice: `is_right` judges the open file, and `content` makes a
// new one.
[[nodiscard]] policy::result<bool> update_file(
    const directory&, const std::string& name, const access&, const std::function<bool(int fd)>& is_right,
    const std::function<policy::result<crypto::secret>()>& content);

// A new file in a directory that nobody looks at before it is renamed: owner and mode, content, fsync. A
// crash may leave a part of it. The directory is synced by the caller, once for all files.
[[nodiscard]] policy::result<void> create_file(const directory&, const std::string& name,
                                               std::string_view content, const access&);

// Points the symbolic link at `target`, by one rename; a link that does already is left as it is.
// errc::foreign_file: a file or directory of this name.
[[nodiscard]] policy::result<void> replace_link(const directory&, const std::string& name,
                                                const std::string& target);

// Removes a file or a link; gone already is success. errc::foreign_file: a directory.
[[nodiscard]] policy::result<void> remove_file(const directory&, const std::string& name);

// Renames within one directory and syncs it: a staged directory becomes visible in one step. Nothing is
// replaced: errc::foreign_file when `to` exists.
[[nodiscard]] policy::result<void> rename_into_place(const directory&, const std::string& from,
                                                     const std::string& to);

}  // namespace disk
