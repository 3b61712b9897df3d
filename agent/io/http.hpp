#pragma once

#include "agent/io/async.hpp"
#include "crypto/secret.hpp"
#include "policy/limits.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

// Port: one HTTP exchange. Redirects are never followed; only complete bodies are accepted.

namespace io {

// Each phase has its own limit, so that a request waiting for a connection does not use up the time of its
// answer. Default of each: network.timeout.
struct http_limits {
    std::optional<std::chrono::milliseconds> wait;     // for a free connection to the host
    std::optional<std::chrono::milliseconds> connect;  // DNS, TCP, proxy and TLS together
    std::optional<std::chrono::milliseconds> answer;   // from the first byte sent to the last one received
};

// Receives the body of a 2xx answer piece by piece; a failure ends the exchange with it.
using body_consumer = std::function<policy::result<void>(std::string_view piece)>;

struct http_request {
    std::string method;  // GET, POST, DELETE
    std::string url;     // absolute, https (http for loopback)
    std::map<std::string, std::string> headers;
    std::optional<crypto::secret> authorization;  // value of the Authorization header
    std::optional<crypto::secret> body;           // Content-Type goes into headers
    http_limits limits = {};
    std::size_t body_limit = policy::limits::response_bytes;
    body_consumer consume = {};  // none: the body is collected in the response
    bool idempotent = false;     // may be repeated once on a kept connection that died before an answer
    // What it carries (a refresh token, an authorization code) is spent by the first delivery: it has a
    // connection of its own, and a stop waits for its answer.
    bool single_use = false;
};

struct http_response {
    unsigned status = 0;
    std::map<std::string, std::string> headers;  // names in lower case, the last value of each
    std::string body;                            // empty when it was consumed
};

class http {
public:
    virtual ~http() = default;

    // Any complete answer is a value, whatever its status. Failures: not_resolved, not_connected, untrusted,
    // timed_out (no byte of the request was sent), no_answer (it may have been processed),
    // bad_answer (too large, not delimited), stopping (nothing sent, or nothing that matters: idempotent),
    // config (no usable URL), internal (a header that cannot be sent).
    virtual task<http_response> exchange(http_request) = 0;
};

}  // namespace io
