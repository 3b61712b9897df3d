#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "agent/io/url.hpp"
#include "policy/desired.hpp"

#include <functional>
#include <memory>

// The real http port: HTTP/1.1 over TLS 1.2 or later, with
// persistent connections and, if configured, an HTTP proxy.

namespace io {

// "user:password" for the proxy, read for every new connection.
using proxy_credentials = std::function<task<crypto::secret>()>;

class http_client final : public http {
public:
    http_client(policy::network_settings, proxy_environment, stop_event&);
    ~http_client() override;

    // Unless the request sets its own limits, connecting may take half of network.timeout and the answer the
    // rest. A request that cannot be repeated always has the full limit for its answer, counted from sending.
    // A stop ends an exchange at once (stopping), but one that is not idempotent gets three seconds to
    // receive its answer, and a single-use one its full limit. An invalid URL is errc::config.
    task<http_response> exchange(http_request) override;

    // Applies to exchanges that start later; kept connections are closed.
    void configure(policy::network_settings, proxy_credentials = {});

    // Closes all idle connections, at the end of a pass.
    void close_kept();

private:
    struct impl;
    std::shared_ptr<impl> impl_;
    proxy_environment environment_;
    stop_event& stop_;
};

}  // namespace io
