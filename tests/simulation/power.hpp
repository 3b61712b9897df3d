#pragma once

#include "tests/simulation/dice.hpp"

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
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
    void writes(int fd, off_t at, std::size_t size);
    void resizes(int fd, off_t size);
    void makes(int where, const char* name);
    void removes(int where, const char* name);
    void renames(int from, const char* old_name, int to, const char* new_name);
    // Called before each sync.
    void syncs(int fd);
    // The name now refers to another file with the same content.
    void replaced_by_copy(const std::filesystem::path& original, const std::filesystem::path& copy);

    // What one power cut loses.
    struct loss;
    // Draws for each unsynced change whether it is kept; changes nothing.
    loss draw(dice&) const;
    // Loses this much; describes what became of each change.
    std::vector<std::string> cut(const loss&);

    // The same unsynced changes, on a copy of the tree.
    std::unique_ptr<power> on_copy(const std::filesystem::path& original, const std::filesystem::path& copy,
                                   const std::filesystem::path& aside) const;

    // The name did not exist at the last sync of its directory: a power cut may undo it.
    bool is_new(const std::filesystem::path&) const;
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
    // What was on the disk at the last sync: the old content of the pages that were changed since.
    struct content {
        int fd;  // opened here
        std::string path;
        std::size_t synced;  // size
        std::map<std::size_t, std::string> pages;
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
        std::uint64_t number = 0;
    };

    bool is_ours(int directory) const;
    content* opened(int fd);
    void keep_pages(content&, std::size_t from, std::size_t to);
    std::optional<change> begin(change::kind, int where, const char* path);
    void keep_aside(change&);
    void undo(const change&);
    void forget(std::list<change>::iterator);
    void note(change);
    std::string drawn_content(const content&, dice&) const;

    std::filesystem::path root_;
    std::filesystem::path aside_;
    int kept_ = 0;
    std::uint64_t noted_ = 0;  // changes of names
    std::map<identity, content> files_;
    std::list<change> names_;
};

struct power::loss {
    std::map<identity, std::string> contents;  // what is left in each file that was not synced
    std::set<std::uint64_t> names;             // changes of names that are undone

    auto operator<=>(const loss&) const = default;
};

// Copies a tree with modes and times; sockets and further names of a file stay what they are.
void copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);

// Names and contents below a directory as one number, without shared memory.
std::uint64_t digest_of_tree(const std::filesystem::path&);

}  // namespace simulation
