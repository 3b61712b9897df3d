#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Requests and responses as plain values, so that only the server depends on Beast.

namespace simulator {

using parameters = std::vector<std::pair<std::string, std::string>>;

// The first value with this name, if any.
std::optional<std::string> find(const parameters& list, std::string_view name);

// Parses application/x-www-form-urlencoded, from a query or a body.
parameters read_form(std::string_view text);

struct request {
    std::string method{};
    std::string path{};  // as sent, without the query
    parameters query{};
    parameters fields{};  // header fields, names in lower case
    std::string body{};
    std::uint64_t sequence = 0;  // assigned on arrival, for the journal

    // The value of the header field, or an empty string.
    std::string field(std::string_view lower_case_name) const;

    // The path split at slashes, percent-decoded.
    std::vector<std::string> segments() const;
};

struct response {
    int status = 200;
    parameters fields{};
    std::string body{};
};

response json_response(int status, const boost::json::value& body);
response html_response(int status, std::string_view title);

// The error body of the exposure services and of the control API.
response problem(int status, std::string_view message);

// Thrown if the body is not valid for the call; becomes a 400.
struct bad_request {
    std::string message{};
};

}  // namespace simulator
