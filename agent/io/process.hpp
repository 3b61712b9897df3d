#pragma once

#include "agent/io/async.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

// Port: a child process in its own process group, without a shell, with limits on time and output.

namespace io {

struct process_request {
    std::vector<std::string> argv;                   // argv[0] is an absolute path
    int program = -1;                                // if set, this open file is executed and argv[0] is only
                                                     // its name; remains owned by the caller
    std::map<std::string, std::string> environment;  // complete: nothing is inherited
    std::string input;                               // for its standard input, followed by end of file
    std::chrono::milliseconds timeout{60'000};  // then the whole process group is ended (TERM, then KILL)
    std::size_t output_limit = 16 << 10;        // per stream; the last bytes are kept
};

struct process_outcome {
    int exit_code = -1;  // -1: killed by a signal
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

    // Fails only if nothing could be started (errc::hook_failed with errno's text) or on a stop.
    virtual task<process_outcome> run(process_request) = 0;
};

// --- The real process port: fork and execve, watched through a pidfd

// The child gets its own process group, default signal dispositions and mask, "/" as its
// directory, only descriptors 0 to 2, and only the environment in the request.
// Background processes of a child that exits with 0 are left alone and their output is
// not waited for; after a failure, a timeout or a stop the whole group is ended: SIGTERM
// if the child is still running, two seconds later SIGKILL for whatever is left.
class process_posix final : public process {
public:
    explicit process_posix(stop_event& stop) : stop_(stop) {}

    task<process_outcome> run(process_request) override;

private:
    stop_event& stop_;
};

}  // namespace io
