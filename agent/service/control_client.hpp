#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/io/async.hpp"
#include "agent/platform/access_token.hpp"

#include <boost/json/object.hpp>

#include <chrono>
#include <optional>
#include <string>

// The running daemon, asked over its socket in the state directory: it alone holds the directory and
// refreshes tokens.

namespace service {

// What the daemon answers to a verb with these arguments (see operations): JSON with "exit" and "messages".
// None: no daemon runs here. errc::busy: its socket is not for this user; errc::unavailable: it ended, or
// took longer than that, and may have done the work.
io::task<std::optional<boost::json::object>> ask_daemon(disk::paths, std::string verb,
                                                        boost::json::object arguments,
                                                        std::chrono::milliseconds timeout);

// Bearer tokens from the daemon, so that one process refreshes, never two.
class daemon_tokens final : public platform::access_tokens {
public:
    explicit daemon_tokens(disk::paths where) : paths_(std::move(where)) {}

    io::task<crypto::secret> current() override;
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;

private:
    io::task<crypto::secret> ask(crypto::secret body);

    disk::paths paths_;
};

}  // namespace service
