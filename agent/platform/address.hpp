#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

// Parts of addresses.

namespace platform {

// One segment of a path, or one value of a query: everything but RFC 3986's unreserved characters is escaped.
std::string escaped(std::string_view text);

// "?" and key=value pairs, or the body of an application/x-www-form-urlencoded POST without the "?".
std::string form(std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

// %XX turned back, and "+" into a blank where it stands for one. A broken escape is left as it is.
std::string unescaped(std::string_view text, bool plus_is_blank);

// "https://user@les.example.com:8443/api" -> "les.example.com:8443", for sentences.
std::string host_of(std::string_view url);

}  // namespace platform
