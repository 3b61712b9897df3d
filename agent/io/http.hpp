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

// Each phase has its own limit, so that waiting for a connection does not use up the time for the answer.
// Default of each: network.timeout.
struct http_limits {
    std::optional<std::chrono::milliseconds> wait;     // for a free connection to the host
    std::optional<std::chrono::milliseconds> connect;  // DNS, TCP, proxy and TLS together
    std::optional<std::chrono::milliseconds> answer;   // from the first byte sent to the last one received
};

// Receives the body of a 2xx answer in pieces; a failure aborts the exchange with that failure.
using body_consumer = std::function<policy::result<void>(std::string_view piece)>;

struct http_request {
    std::string method;  // GET, POST, DELETE
    std::string url;     // absolute, https (http for loopback)
    std::map<std::string, std::string> headers;
    std::optional<crypto::secret> authorization;  // value of the Authorization header
    std::optional<crypto::secret> body;           // Content-Type is set in headers
    http_limits limits = {};
    std::size_t body_limit = policy::limits::response_bytes;
    body_consumer consume = {};  // unset: the body is stored in the response
    bool idempotent = false;     // may be sent once more if a kept connection died before an answer
    // Its content (a refresh token, an authorization code) is used up by the first delivery: it gets a
    // connection of its own, and a stop waits for the answer.
    bool single_use = false;
};

struct http_response {
    unsigned status = 0;
    std::map<std::string, std::string> headers;  // lower-case names, the last value of each
    std::string body;                            // empty if it went to the consumer
};

class http {
public:
    virtual ~http() = default;

    // Any complete answer is a value, whatever its status. Failures: not_resolved, not_connected, untrusted,
    // timed_out (no byte of the request was sent), no_answer (it may have been processed), bad_answer (too
    // large, not delimited), stopping (nothing was sent, or it is idempotent), config (unusable URL),
    // internal (a header that cannot be sent).
    virtual task<http_response> exchange(http_request) = 0;
};

}  // namespace io
