#pragma once

#include "agent/io/http.hpp"
#include "policy/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

// Foreign text inside our sentences.

namespace platform {

inline constexpr std::size_t shown_length = 300;  // of foreign text in one sentence

// The text on one line, shortened, without control characters; every occurrence of a hidden text, whatever
// follows "Bearer" or "Basic", and every long run of token characters becomes "[hidden]".
std::string redact(std::string_view text, std::span<const std::string_view> hidden = {});

// --- What an HTTP answer means, in one place. The reference lists 401 only (platform-api section 7):
// everything else goes by class (failure-modes S3, U9).

inline bool succeeded(const io::http_response& answer)
{
    return answer.status >= 200 && answer.status < 300;
}

// A header's value; empty when it is missing.
std::string_view header(const io::http_response&, const std::string& lower_case_name);

// The failure that an answer other than 2xx is. `what` leads the sentence ("exposure logs: list users"),
// hidden texts never show in it.
policy::failure failure_of(const io::http_response&, std::string_view what, std::string_view host,
                           policy::instant now, std::span<const std::string_view> hidden = {});

// The reason in an error's body: {message}, {error, error_description}, {errors: [{message}]}, RFC 7807's
// {title, detail}, the title of a page of HTML, or the text itself. Ready to be shown; may be empty.
std::string reason_in(std::string_view body, std::span<const std::string_view> hidden = {});

// RFC 9110 section 10.2.3: seconds, or a date. None: no such header, or an unreadable one.
std::optional<policy::duration> retry_after(const io::http_response&, policy::instant now);

}  // namespace platform
