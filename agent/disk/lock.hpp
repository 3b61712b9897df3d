#pragma once

#include "agent/disk/directory.hpp"
#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

#include <utility>

namespace disk {

// The state directory is ours as long as this lives: one agent at a time. Children do not inherit it.
class state_lock {
public:
    enum class owner { command, daemon };

    // Does not wait. errc::busy: another agent holds it, its process id in the sentence. errc::foreign_file:
    // the lock file is a link or no regular file. The state directory exists.
    [[nodiscard]] static policy::result<state_lock> acquire(const paths&, owner = owner::command);

    // Who holds the lock is a daemon, or has not said yet what it is. For who was refused it.
    [[nodiscard]] static bool is_daemons(const paths&);

private:
    explicit state_lock(descriptor file) : file_(std::move(file)) {}

    descriptor file_;
};

}  // namespace disk
