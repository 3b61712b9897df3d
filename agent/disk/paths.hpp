#pragma once

#include "policy/naming.hpp"

#include <filesystem>
#include <string>

// The one place that joins names under the state directory. Every name is checked (is_plain_name): one that
// could leave its directory is a bug of the caller and throws std::invalid_argument; the configuration
// refused it before.

namespace disk {

class paths {
public:
    explicit paths(std::filesystem::path state_dir);

    const std::filesystem::path& state_dir() const noexcept { return state_dir_; }
    std::filesystem::path lock() const;                          // held with flock
    std::filesystem::path control_socket() const;                // of the running daemon
    std::filesystem::path spool() const;                         // users whose hooks a privileged unit runs
    std::filesystem::path live(const policy::user_name&) const;  // default of output.directory

    std::filesystem::path private_directory() const;  // 0700, everything below
    std::filesystem::path database() const;
    std::filesystem::path reserve() const;  // room for answers, given up when the disk is full

private:
    std::filesystem::path state_dir_;
};

}  // namespace disk
