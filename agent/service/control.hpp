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

// The socket in the state directory over which root and the daemon's own user send it requests: only the
// running daemon holds the directory and refreshes tokens.
//   POST /v1/VERB with a JSON object     runs a verb of `operations`: the members of its struct, all
//                                        optional; the answer is a verb_answer
//   POST /v1/access-token {"refused"?}   {"access_token": ...}, refreshed if it is the refused one
//   POST /v1/ping                        answered when a daemon runs
//   GET /status.json, /metrics, /healthz, /readyz

namespace service {

// ---- the daemon's side

struct control_points {
    // Work that has not started when the client disconnects is dropped.
    std::function<io::awaitable<verb_answer>(verb_request, std::function<bool()> is_gone)> perform;
    std::function<io::task<crypto::secret>(std::optional<crypto::secret> refused)> access_token;
    web_handler show;  // for GET
};

// Serves the control socket. A long-running verb keeps its connection open; work that has started continues
// after the client disconnects.
web_handler control_handler(control_points);

// ---- the client's side

// The daemon's answer to a verb; none when no daemon runs. errc::busy: this user may not use its socket;
// errc::unavailable: it exited or did not answer in time, and may have done the work.
io::task<std::optional<verb_answer>> ask_daemon(disk::paths, const verb_request&,
                                                std::chrono::milliseconds timeout);

boost::json::object to_json(const verb_answer&);

// Gets bearer tokens from the daemon, so that only one process ever refreshes them.
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
