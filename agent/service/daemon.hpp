#pragma once

#include "agent/service/application.hpp"
#include "config/reader.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <memory>
#include <string>

// `run`: the daemon.

namespace service {

struct daemon_options {
    std::filesystem::path config_file;    // watched; read again on SIGHUP
    config::environment environment;      // used to read the file
    std::filesystem::path spool;          // set: root's helper runs the hooks
    std::string version;                  // of the program, for metrics
    std::optional<surroundings> runs_on;  // set: replaces the real network, processes and threads
};

// Keeps everything as configured until SIGTERM or SIGINT. errc::busy: another agent holds the state
// directory; errc::disk, errc::foreign_file: the state directory cannot be used.
policy::result<void> run(std::shared_ptr<const policy::desired_state>, daemon_options);

}  // namespace service
