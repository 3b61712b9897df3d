#pragma once

#include "agent/io/http.hpp"
#include "agent/io/http_connection.hpp"

// HTTP/1.1 messages (RFC 9112) on Beast, and what is special about ours: requests are laid out in memory that
// is wiped, bodies go to their consumer as they come, interim answers (1xx) are bounded.

namespace io {

// Head and body. errc::internal for a method or a header that would break out of its line.
policy::result<wiped_buffer> request_text(const http_request&, const http_address&);

wiped_buffer connect_request(const http_address& to, const proxy&);

// How an answer arrived, or did not.
struct received {
    policy::result<http_response> response;
    bool keep_alive = false;          // the connection may carry another request
    bool nothing = false;             // the connection ended before the first byte
    boost::system::error_code error;  // of the stream, if that is what failed
};

// Called once before a body grows beyond policy::limits::large_response_bytes.
using large_body = std::function<awaitable<void>()>;

// The final answer, complete: its body ends where its length or its last chunk says, or with an orderly end
// of the connection (close_notify under TLS). no_answer when the connection ends before it does, bad_answer
// when it is too large, compressed or not HTTP, or the failure of request.consume.
awaitable<received> receive(http_connection&, const http_request&, large_body);

// What Beast's error says about the answer.
policy::failure unusable_answer(const boost::system::error_code&);

}  // namespace io
