#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/io/async.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/service/operations.hpp"
#include "agent/service/web_server.hpp"
#include "crypto/secret.hpp"

#include <boost/json/object.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

// The socket in the state directory, over which root and its own user ask the running daemon: it alone holds
// the directory and refreshes tokens.
//   POST /v1/VERB with a JSON object     a verb of `operations`: the members of its struct, all optional; the
//                                        answer is a verb_answer
//   POST /v1/access-token {"refused"?}   {"access_token": ...}, refreshed when it is the refused one
//   POST /v1/ping                        a daemon runs
//   GET /status.json, /metrics, /healthz, /readyz

namespace service {

// ---- the daemon's side

struct control_points {
    // What has not begun when the verb's caller is gone never does.
    std::function<io::awaitable<verb_answer>(verb_request, std::function<bool()> is_gone)> perform;
    std::function<io::task<crypto::secret>(std::optional<crypto::secret> refused)> access_token;
    web_handler show;  // of GET
};

// Answers requests by these. Long work keeps its connection; what has begun goes on when the client is gone.
web_handler control_handler(control_points);

// ---- the client's side

// What the daemon answers to a verb. None: no daemon runs here. errc::busy: its socket is not for this user;
// errc::unavailable: it ended, or took longer than that, and may have done the work.
io::task<std::optional<verb_answer>> ask_daemon(disk::paths, const verb_request&,
                                                std::chrono::milliseconds timeout);

boost::json::object to_json(const verb_answer&);

// Bearer tokens from the daemon, so that one process refreshes, never two.
class daemon_tokens final : public platform::access_tokens {
public:
    explicit daemon_tokens(disk::paths where) : paths_(std::move(where)) {}

    io::task<crypto::secret> current() override;
    io::task<crypto::secret> after_refusal(crypto::secret refused) override;

private:
    io::task<crypto::secret> ask(std::optional<crypto::secret> refused);

    disk::paths paths_;
};

}  // namespace service
