#pragma once

#include "agent/service/web_server.hpp"
#include "crypto/secret.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <optional>
#include <string>

// What the daemon can be asked by root and its own user over the socket in the state directory:
//   POST /v1/VERB with JSON arguments   a verb of `operations`; the answer has "exit" and "messages"
//   POST /v1/access-token {"refused"?}  {"access_token": ...}, refreshed when it is the refused one
//   POST /v1/ping                        {"exit": 0}: a daemon runs
//   GET /status.json, /metrics, /healthz, /readyz

namespace service {

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
