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

// The way of every API call: bearer token, headers, one repeat after a 401, status to failure. The clients of
// both APIs share one.

namespace platform {

struct api_call {
    std::string what;           // leads every sentence: "exposure logs: list users"
    std::string operation;      // stable word for metrics: "list_users"
    std::string exposure = {};  // that it is about, if any
    std::string method;
    std::string url;
    std::string body = {};           // JSON, of a POST
    io::body_consumer consume = {};  // of a 2xx answer's body, piece by piece; none: it is in the response
    std::size_t body_limit = policy::limits::response_bytes;
};

class api_channel {
public:
    // One exchange that ended, and its HTTP status or the name of its failure.
    using observer = std::function<void(const api_call&, std::string_view status)>;

    // All of them outlive this.
    api_channel(io::http&, access_tokens&, io::clock&, observer watch = {});

    // The answer, when it is 2xx. After a 401 the token is refreshed (shared by all that wait) and the call
    // repeated once, a POST too: a 401 counts as not executed (failure-modes U18). Then errc::unauthorized.
    // After a 429 it waits for its turn and is repeated, a POST too: it was not processed.
    // `status`: the HTTP status of the last answer, 0 when there was none.
    io::task<io::http_response> send(api_call, unsigned* status = nullptr);

    // Our clock minus that of the host, as the Date header of its last answer showed it. Each host has its
    // own: a wrong clock of one service says nothing of the others.
    std::optional<policy::duration> clock_ahead(const std::string& host) const;

private:
    // A host that answered 429 or 503 gets one request after the other, an interval apart. The interval
    // doubles with every such answer, and halves after a run of good ones.
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
    std::map<std::string, pace> paces_;                    // by host; none: as fast as requests come
};

// The failure of an answer that a reader did not believe, with the call's and the host's name.
policy::failure unbelievable(const api_call&, policy::failure);

}  // namespace platform
