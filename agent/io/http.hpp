#pragma once

#include "agent/io/awaitable.hpp"
#include "crypto/secret.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>

// Port: one HTTP exchange. Redirects are never followed; only delimited, complete bodies are believed.

namespace io {

struct http_request {
    std::string method;  // GET, POST, DELETE
    std::string url;     // absolute, https (http for loopback)
    std::map<std::string, std::string> headers;
    std::optional<crypto::secret> authorization;       // value of the Authorization header
    std::optional<crypto::secret> body;                // Content-Type goes into headers
    std::optional<std::chrono::milliseconds> timeout;  // whole exchange; default: network.timeout
    bool idempotent = false;  // may be repeated once on a kept connection that died before an answer
};

struct http_response {
    unsigned status = 0;
    std::map<std::string, std::string> headers;  // names in lower case, the last value of each
    std::string body;
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
