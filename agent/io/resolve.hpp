#pragma once

#include "agent/io/stop_event.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Names to addresses, in a way that can be abandoned.

namespace io {

// All addresses in the order of getaddrinfo(3); a literal needs no lookup. Every lookup has a thread of its
// own: getaddrinfo cannot be cancelled, Asio's resolver runs all of them one after the other and makes the
// end of the program wait for the last. Bound it with with_deadline. Failures: not_resolved, stopping.
task<std::vector<boost::asio::ip::tcp::endpoint>> resolve(std::string host, std::uint16_t port, stop_event&);

}  // namespace io
