#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "agent/io/url.hpp"
#include "policy/desired.hpp"

#include <functional>
#include <memory>

// The real http port: HTTP/1.1 over TLS 1.2 or later, kept connections, an HTTP proxy where one is
// configured.

namespace io {

// "user:password" for the proxy, read for each new connection.
using proxy_credentials = std::function<task<crypto::secret>()>;

class http_client final : public http {
public:
    http_client(policy::network_settings, proxy_environment, stop_event&);
    ~http_client() override;

    // Connecting has half of network.timeout unless the request says more, and an answer the rest. What
    // cannot be repeated always has the whole limit for its answer, counted from sending. A stop ends an
    // exchange at once (stopping), but gives a request that is not idempotent three seconds to receive its
    // answer, and a single-use one all of its limit. A wrong URL is errc::config.
    task<http_response> exchange(http_request) override;

    // For exchanges that start from now on; kept connections are closed.
    void configure(policy::network_settings, proxy_credentials = {});

    // Nothing is held open until the next exchange: for the end of a pass.
    void close_kept();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
    proxy_environment environment_;
    stop_event& stop_;
};

}  // namespace io
