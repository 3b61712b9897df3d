#pragma once

#include "policy/result.hpp"

#include <boost/json/fwd.hpp>
#include <boost/json/storage_ptr.hpp>

#include <string>
#include <string_view>

// What the readers of this room share: reading foreign JSON without trusting its shape.

namespace platform {

// errc::bad_answer, "it is not JSON": an HTML page, a cut text, nested too deeply.
[[nodiscard]] policy::result<boost::json::value> parse_json(std::string_view text,
                                                            boost::json::storage_ptr = {});

// The same, and it is an object.
[[nodiscard]] policy::result<boost::json::object> parse_object(std::string_view text,
                                                               boost::json::storage_ptr = {});

// A member as text, a number as its digits; empty when it is missing, null or something else.
std::string text_of(const boost::json::object&, std::string_view key);

// A member that is an object; nullptr otherwise.
const boost::json::object* object_of(const boost::json::object&, std::string_view key);

policy::failure unexpected_answer(std::string context);  // errc::bad_answer

}  // namespace platform
