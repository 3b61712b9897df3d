#pragma once

#include "agent/io/clock.hpp"
#include "agent/io/http.hpp"
#include "agent/platform/access_token.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

// The path of every API call: bearer token, headers, one repeat after a 401, status to failure.
// Both API clients share one channel.

namespace platform {

struct api_call {
    std::string what;           // prefix of every message: "exposure logs: list users"
    std::string operation;      // stable name for metrics: "list_users"
    std::string exposure = {};  // the exposure concerned, if any
    std::string method;
    std::string url;
    std::string body = {};           // JSON, for a POST
    io::body_consumer consume = {};  // receives a 2xx body in chunks; if unset, the response holds the body
    std::size_t body_limit = policy::limits::response_bytes;
};

class api_channel {
public:
    // Called after every exchange with its HTTP status or the name of its failure.
    using observer = std::function<void(const api_call&, std::string_view status)>;

    // All arguments must outlive this object.
    api_channel(io::http&, access_tokens&, io::clock&, observer watch = {});

    // Returns the response if it is 2xx. After a 401 the token is refreshed (one refresh for all waiting
    // calls) and the call is repeated once, even a POST: a 401 counts as not executed (failure-modes U18).
    // A second 401 is errc::unauthorized. After a 429 the call waits for its turn and is repeated, even a
    // POST: it was not processed. `status` receives the last HTTP status, 0 if there was no response.
    io::task<io::http_response> send(api_call, unsigned* status = nullptr);

    // Our clock minus that host's, from the Date header of its last response. Kept per host: the
    // wrong clock of one service says nothing about the others.
    std::optional<policy::duration> clock_ahead(const std::string& host) const;

private:
    // A host that answered 429 or 503 gets its requests one at a time, an interval apart. The
    // interval doubles with every such answer and halves after a run of good ones.
    struct pace {
        std::chrono::milliseconds interval{0};
        std::chrono::steady_clock::time_point next;     // when the next request may be sent
        std::chrono::steady_clock::time_point changed;  // answers to requests sent before say nothing new
        int good = 0;
    };
    io::task<void> wait_for_turn(const std::string& host, std::chrono::milliseconds longest);
    void note_pace(const std::string& host, const io::http_response&,
                   std::chrono::steady_clock::time_point sent);
    io::task<io::http_response> exchange_in_turn(const api_call&, const crypto::secret& token);
    io::task<io::http_response> exchange(const api_call&, const crypto::secret& token);

    io::http& http_;
    access_tokens& tokens_;
    io::clock& clock_;
    observer observer_;
    std::map<std::string, policy::duration> clock_ahead_;  // by host
    std::map<std::string, pace> paces_;                    // by host; no entry: no limit
};

// The failure for a response that a reader rejected, prefixed with the call and the host.
policy::failure unbelievable(const api_call&, policy::failure);

}  // namespace platform
