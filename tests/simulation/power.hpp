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

// What survives a power cut. Every change the program makes is recorded: content until its file is synced,
// names until their directory is. A power cut then loses an arbitrary part of what was not synced: the pages
// of a file are old, new or zero, its length is old or new; the changes of a name are undone from some point
// on, independently of other names.

namespace simulation {

class power {
public:
    // Records changes below the root; replaced and removed files are kept in `aside`, on the same filesystem.
    power(std::filesystem::path root, std::filesystem::path aside);
    ~power();

    // Called before each change; paths are relative to the open directory.
    void writes(int fd);
    void makes(int where, const char* name);
    void removes(int where, const char* name);
    void renames(int from, const char* old_name, int to, const char* new_name);
    // Called before each sync.
    void syncs(int fd);
    // The name now refers to another file with the same content.
    void replaced_by_copy(const std::filesystem::path& original, const std::filesystem::path& copy);

    // Randomly keeps or loses each unsynced change; describes what became of each.
    std::vector<std::string> cut(dice&);

    // Whether the descriptor is one of its own.
    bool holds(int fd) const;
    std::size_t unsynced() const { return files_.size() + names_.size(); }
    std::uint64_t lost = 0;  // changes undone by power cuts

private:
    struct identity {
        dev_t device;
        ino_t inode;
        auto operator<=>(const identity&) const = default;
    };
    struct content {
        int fd;  // opened here
        std::string path;
        std::string synced;
    };
    struct change {
        enum class kind { made, removed, renamed };
        kind what;
        int directory;  // opened here
        identity of;    // identity of the directory
        std::string name;
        std::string old_name;    // for renamed: the old name
        std::string kept_aside;  // link to the previous file; empty: none, or a directory
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
