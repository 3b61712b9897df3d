#pragma once

#include "agent/io/http.hpp"
#include "policy/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

// Foreign text in our messages.

namespace platform {

inline constexpr std::size_t shown_length = 300;  // of foreign text in one message

// The text on one line, shortened, without control characters; hidden texts, whatever follows
// "Bearer" or "Basic", and long runs of token characters are replaced by "[hidden]".
std::string redact(std::string_view text, std::span<const std::string_view> hidden = {});

// --- What an HTTP response means, in one place. The reference lists only 401 (platform-api
// section 7): everything else goes by class (failure-modes S3, U9).

inline bool succeeded(const io::http_response& answer)
{
    return answer.status >= 200 && answer.status < 300;
}

// A header's value; empty if it is missing.
std::string_view header(const io::http_response&, const std::string& lower_case_name);

// The failure for a response other than 2xx. `what` starts the message ("exposure logs: list
// users"); hidden texts never appear in it.
policy::failure failure_of(const io::http_response&, std::string_view what, std::string_view host,
                           policy::instant now, std::span<const std::string_view> hidden = {});

// The reason in an error's body: {message}, {error, error_description}, {errors: [{message}]}, RFC 7807's
// {title, detail}, the title of an HTML page, or the text itself. Ready for display; may be empty.
std::string reason_in(std::string_view body, std::span<const std::string_view> hidden = {});

// RFC 9110 section 10.2.3: seconds or a date. None if the header is missing or unreadable.
std::optional<policy::duration> retry_after(const io::http_response&, policy::instant now);

}  // namespace platform
