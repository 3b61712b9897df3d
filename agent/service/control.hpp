#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/io/async.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/service/web_server.hpp"
#include "crypto/secret.hpp"

#include <boost/json/object.hpp>

#include <chrono>
#include <functional>
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

// What the daemon can be asked by root and its own user over the socket in the state directory:
//   POST /v1/VERB with JSON arguments   a verb of `operations`; the answer has "exit" and "messages"
//   POST /v1/access-token {"refused"?}  {"access_token": ...}, refreshed when it is the refused one
//   POST /v1/ping                        {"exit": 0}: a daemon runs
//   GET /status.json, /metrics, /healthz, /readyz

struct control_points {
    // What has not begun when the verb's caller is gone never does.
    std::function<io::awaitable<boost::json::object>(std::string verb, boost::json::object arguments,
                                                     std::function<bool()> is_gone)>
        perform;
    std::function<io::task<crypto::secret>(std::optional<crypto::secret> refused)> access_token;
    web_handler show;  // of GET
};

// Answers requests by these. Long work keeps its connection; what has begun goes on when the client is gone.
web_handler control_handler(control_points);

}  // namespace service
