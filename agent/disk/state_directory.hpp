#pragma once

#include "agent/disk/directory.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <string>
#include <utility>

// The only place that builds paths under the state directory. Every name is checked
// (is_plain_name): one that could leave its directory is a bug of the caller and throws
// std::invalid_argument, because the configuration has already rejected such names.

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
    std::filesystem::path reserve() const;  // space for responses, deleted when the disk is full

private:
    std::filesystem::path state_dir_;
};

// Creates the state directory (0711) and `private` in it (0700 from the moment it exists), and
// corrects modes that were loosened. The state directory may be a link, as systemd creates one
// for DynamicUser=. errc::foreign_file: `private` is a link or not a directory, or either belongs
// to another user (the state directory may be root's); the message names the user to run as.
[[nodiscard]] policy::result<void> prepare_state_directory(const paths&);

// Exclusive use of the state directory while this lives: one agent at a time. Children do not inherit it.
class state_lock {
public:
    enum class owner { command, daemon };

    // Does not wait. errc::busy: another agent holds it (the message has its process id).
    // errc::foreign_file: the lock file is a link or not a regular file. The state directory must exist.
    [[nodiscard]] static policy::result<state_lock> acquire(const paths&, owner = owner::command);

    // Whether the holder is a daemon or has not recorded yet what it is. For callers that got errc::busy.
    [[nodiscard]] static bool is_daemons(const paths&);

private:
    explicit state_lock(descriptor file) : file_(std::move(file)) {}

    descriptor file_;
};

}  // namespace disk
