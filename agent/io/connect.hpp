#pragma once

#include "agent/io/connection.hpp"
#include "agent/io/http_address.hpp"
#include "agent/io/proxy.hpp"
#include "agent/io/time_limit.hpp"
#include "agent/io/tls.hpp"

#include <memory>

namespace io {

// A connection over which the first byte of a request may be sent: name resolved, TCP connected (each address
// in turn), tunnelled through the proxy if there is one (CONNECT, RFC 9110 section 9.3.6), TLS done and the
// peer verified. Nothing was sent when it fails: not_resolved, not_connected, untrusted, timed_out, stopping.
task<std::unique_ptr<connection>> connect(const http_address& to, const std::optional<proxy>& via, tls_trust&,
                                          time_limit&);

}  // namespace io
