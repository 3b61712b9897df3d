#pragma once

#include "tests/simulation/dice.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>

// A disk that is full, read-only or fails: which calls of the program below one directory are refused.

namespace simulation {

class disk_trouble {
public:
    explicit disk_trouble(std::filesystem::path below) : below_(std::move(below)) {}

    // ENOSPC: `room` bytes are left, and removed files make room. EROFS: no change. EIO: this share of
    // changes and syncs fails.
    void begin(int error, double share, std::int64_t room);
    void end() { error_ = 0; }
    bool now() const { return error_ != 0; }
    int error() const { return error_; }

    // The errno of a call that fails; 0: it succeeds. Paths are relative to the open directory.
    int at_write(dice&, int fd, off_t end);  // the file then ends at `end`, or later
    int at_sync(dice&, int fd);
    int at_open(dice&, int where, const char* path, int flags);
    int at_new_name(dice&, int where, const char* path);
    int at_change_of_name(dice&, int where, const char* path);
    void removes(int where, const char* path);  // frees its space
    std::int64_t room() const { return room_; }

private:
    bool is_below(const std::string& path) const;
    bool is_below(int where, const char* path) const;
    int by_chance(dice&) const;

    std::filesystem::path below_;
    int error_ = 0;
    double share_ = 0;
    std::int64_t room_ = 0;
};

}  // namespace simulation
