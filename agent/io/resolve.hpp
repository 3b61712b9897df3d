#pragma once

#include "agent/io/time_limit.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Names to addresses, in a way that can be abandoned.

namespace io {

// All addresses in the order of getaddrinfo(3); a literal needs no lookup. Every lookup has a thread of its
// own: getaddrinfo cannot be cancelled, Asio's resolver runs all of them one after the other and makes the
// end of the program wait for the last. Failures: not_resolved, or timed_out and stopping by the limit.
task<std::vector<boost::asio::ip::tcp::endpoint>> resolve(std::string host, std::uint16_t port, time_limit&);

}  // namespace io
