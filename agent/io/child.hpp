#pragma once

#include "agent/io/process.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <optional>
#include <sys/types.h>

// One child process and the three descriptors that lead to it.

namespace io {

class child {
public:
    using descriptor = boost::asio::posix::stream_descriptor;

    // errc::hook_failed with errno's text, and nothing left behind.
    static policy::result<child> start(boost::asio::any_io_executor, const process_request&);

    child(child&&) noexcept;
    child& operator=(child&&) = delete;
    ~child();  // ends the group of a child that was not reaped

    descriptor& exit_event() { return exit_event_; }  // readable once it has exited
    descriptor& out() { return out_; }
    descriptor& err() { return err_; }

    bool has_exited() const;
    void signal_group(int signal) const noexcept;

    struct status {
        int exit_code = -1;
        int signal = 0;
    };
    // How it ended; looked at while its process id still is its own.
    status peek() const;
    void reap() noexcept;

private:
    child(pid_t pid, descriptor exit_event, descriptor out, descriptor err);

    pid_t pid_;  // and id of its group; -1 once reaped
    descriptor exit_event_;
    descriptor out_;
    descriptor err_;
};

}  // namespace io
