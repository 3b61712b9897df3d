#pragma once

#include "agent/io/connection.hpp"
#include "agent/io/http.hpp"
#include "agent/io/http_address.hpp"
#include "agent/io/proxy.hpp"

// HTTP/1.1 on the wire (RFC 9112): requests to text, answers from it.

namespace io {

// Head and body. errc::internal for a method or a header that would break out of its line.
policy::result<crypto::secret> request_text(const http_request&, const http_address&);

crypto::secret connect_request(const http_address& to, const proxy&);

struct answer {
    http_response response;
    bool keep_alive = false;  // the connection may carry another request
};

// What is known of an answer that did not come.
struct lost_answer {
    policy::failure why;
    bool nothing_heard = false;  // closed before the first byte
};

// The one complete answer, interim ones (1xx) left out. Limits: policy/limits.hpp. no_answer when the
// connection ends before it does, bad_answer when it is too large, not delimited or no HTTP.
awaitable<boost::system::result<answer, lost_answer>> read_answer(connection&);

// The status of the answer to a CONNECT, whose tunnel begins right after its header.
task<unsigned> read_connect_reply(connection&);

}  // namespace io
