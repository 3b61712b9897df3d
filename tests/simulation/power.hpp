#pragma once

#include "tests/simulation/dice.hpp"

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

// What of the disk outlasts a power cut. Every change of the program is noted as it makes it: content until
// its file is synced, names until their directory is. A power cut then loses any part of what was not: pages
// of a file are old, new or zero, its length old or new; a name's changes are undone from any one of them on,
// whatever becomes of others.

namespace simulation {

class power {
public:
    // Changes below the root are noted; what is replaced or removed is kept aside, on the same file system.
    power(std::filesystem::path root, std::filesystem::path aside);
    ~power();

    // Called before the change is made; the paths are relative to the open directory.
    void writes(int fd);
    void makes(int where, const char* name);
    void removes(int where, const char* name);
    void renames(int from, const char* old_name, int to, const char* new_name);
    // Called before the sync.
    void syncs(int fd);
    // The file behind this name is another one with the same content from now on.
    void replaced_by_copy(const std::filesystem::path& original, const std::filesystem::path& copy);

    // Everything that was not synced lasts, or does not; says what became of each.
    std::vector<std::string> cut(dice&);

    // One of its own.
    bool holds(int fd) const;
    std::size_t unsynced() const { return files_.size() + names_.size(); }
    std::uint64_t lost = 0;  // changes that power cuts undid

private:
    struct identity {
        dev_t device;
        ino_t inode;
        auto operator<=>(const identity&) const = default;
    };
    struct content {
        int fd;  // of our own
        std::string path;
        std::string synced;
    };
    struct change {
        enum class kind { made, removed, renamed };
        kind what;
        int directory;  // of our own
        identity of;    // the directory's
        std::string name;
        std::string old_name;    // renamed: from
        std::string kept_aside;  // what the name stood for before; empty: nothing, or a directory
        bool was_directory = false;
        mode_t mode = 0;
    };

    bool is_ours(int directory) const;
    std::optional<change> begin(change::kind, int where, const char* path);
    void keep_aside(change&);
    void undo(const change&);
    void forget(std::list<change>::iterator);
    std::string lose_content(content&, dice&);

    std::filesystem::path root_;
    std::filesystem::path aside_;
    int kept_ = 0;
    std::map<identity, content> files_;
    std::list<change> names_;
};

}  // namespace simulation
