#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

// Where an edit of a file can show: editors rename over it, deployment tools swap a link on the way to it.

namespace service {

// Every directory in which an entry on the way to the file may be replaced, with the names of these entries:
// the file's own, and those of all symbolic links that lead to it.
std::map<std::filesystem::path, std::set<std::string>> places_of(const std::filesystem::path& file);

// What changes whenever the file's content does, and more often than that.
struct file_facts {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    mode_t mode = 0;
    uid_t owner = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const file_facts&) const = default;
};

// None: there is no such file.
std::optional<file_facts> facts_of(const std::filesystem::path& file);

}  // namespace service
