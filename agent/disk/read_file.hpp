#pragma once

#include "agent/disk/directory.hpp"
#include "policy/result.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

// Reading, bounded. That something is not there is an answer, not a failure.

namespace disk {

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

}  // namespace disk
