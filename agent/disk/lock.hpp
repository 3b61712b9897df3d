#pragma once

#include "agent/disk/directory.hpp"
#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

#include <utility>

namespace disk {

// The state directory is ours as long as this lives: one agent at a time. Children do not inherit it.
class state_lock {
public:
    // Does not wait. errc::busy: another agent holds it, its process id in the sentence. errc::foreign_file:
    // the lock file is a link or no regular file. The state directory exists.
    [[nodiscard]] static policy::result<state_lock> acquire(const paths&);

private:
    explicit state_lock(descriptor file) : file_(std::move(file)) {}

    descriptor file_;
};

}  // namespace disk
