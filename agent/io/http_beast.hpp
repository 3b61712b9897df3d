#pragma once

#include "agent/io/http.hpp"
#include "agent/io/proxy.hpp"
#include "agent/io/stop_event.hpp"
#include "policy/desired.hpp"

#include <memory>

// The real http port: HTTP/1.1 over TLS 1.2 or later, kept connections, an HTTP proxy where one is asked for.

namespace io {

class http_beast final : public http {
public:
    http_beast(policy::network_settings, proxy_environment, stop_event&);
    ~http_beast() override;

    // A stop ends it at once (stopping), but leaves a request that is not idempotent and under way three
    // seconds to hear its answer. Half of the time at most goes into connecting, so that what is sent has
    // time to be answered. A wrong URL is errc::config.
    task<http_response> exchange(http_request) override;

    // For exchanges that start from now on; kept connections are closed.
    void configure(policy::network_settings);

    // Until the next exchange nothing is held open: for the end of a pass.
    void close_kept();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
    proxy_environment environment_;
    stop_event& stop_;
};

}  // namespace io
