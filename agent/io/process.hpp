#pragma once

#include "agent/io/async.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

// Port: a child process in its own process group, without a shell, bounded in time and output.

namespace io {

struct process_request {
    std::vector<std::string> argv;                   // argv[0] is an absolute path
    int program = -1;                                // set: this open file is executed, argv[0] is only its
                                                     // name; stays the caller's
    std::map<std::string, std::string> environment;  // all of it: nothing is inherited
    std::string input;                               // written to its standard input, then closed
    std::chrono::milliseconds timeout{60'000};  // then the whole process group is ended (TERM, then KILL)
    std::size_t output_limit = 16 << 10;        // of each stream the last bytes are kept
};

struct process_outcome {
    int exit_code = -1;  // -1: ended by a signal
    int signal = 0;
    bool timed_out = false;
    std::string out;
    std::string err;
    bool truncated = false;

    bool ok() const { return exit_code == 0 && !timed_out; }
};

class process {
public:
    virtual ~process() = default;

    // Failure only when nothing could be started (errc::hook_failed with errno's text) or on a stop.
    virtual task<process_outcome> run(process_request) = 0;
};

// --- The real process port: posix_spawn(3), watched through a pidfd.

// The child gets a process group, default signal dispositions and mask, "/" as its directory, descriptors 0
// to 2 and no other, and only the environment of the request. What it leaves in the background when it exits
// with 0 is left alone, and its output no longer waited for; after a failure, a timeout or a stop the whole
// group is ended: SIGTERM where the child still runs, SIGKILL two seconds later and for whatever is left
// then.
class process_posix final : public process {
public:
    explicit process_posix(stop_event& stop) : stop_(stop) {}

    task<process_outcome> run(process_request) override;

private:
    stop_event& stop_;
};

}  // namespace io
