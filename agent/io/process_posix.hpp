#pragma once

#include "agent/io/process.hpp"
#include "agent/io/stop_event.hpp"

// The real process port: posix_spawn(3), watched through a pidfd.

namespace io {

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
