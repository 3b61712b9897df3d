#pragma once

#include "agent/platform/api_channel.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// The catalog service (platform-api sections 2.1, 2.2, 4.1, 4.2; what they omit follows the underlying
// product): its JSON and its calls. Messages of errc::bad_answer continue "the answer of HOST: ".

namespace platform {

struct request_state {
    std::string id;    // empty if the answer has none
    std::string text;  // as the catalog names it: "IN_PROGRESS"
    bool finished = false;
    bool succeeded = false;  // only when finished
    std::string details;     // the reason given, redacted for display

    bool operator==(const request_state&) const = default;
};

// `finished` and `succeeded` follow `final` and `successful` if present, else `phase`, else `state`.
[[nodiscard]] policy::result<request_state> read_request_state(std::string_view body);

struct submitted_request {
    std::string id;      // empty if the service sent none
    std::string answer;  // as received; empty unless it is a JSON object
};

// The id of a submitted request: from the body, else the last segment of the Location header, else empty.
std::string read_submitted_id(std::string_view body, std::string_view location);

struct element_values {
    std::map<std::string, crypto::secret> values;  // by element id; numbers and booleans in JSON notation
    std::map<std::string, std::string> types;      // by element id: the platform's name for the type
    std::map<std::string, std::string> missing;    // by element id: one sentence saying why
};

// The extraction rule of section 2.2: the first elementUpdates entry with that id, its first
// facet of type fixedValue, whose value.value must be a string.
[[nodiscard]] policy::result<element_values> extract_values(std::string_view body,
                                                            const std::vector<std::string>& elements);

// {"affectedElements": [...]}
std::string elements_body(const std::vector<std::string>& elements);

// The template with KEY=VALUE assignments applied to its data. A value that parses as JSON is
// used as JSON, any other as text. errc::usage for an assignment without a key, and for a key
// that the template's data lacks (the message suggests the nearest one).
[[nodiscard]] policy::result<std::string> overlay(std::string_view request_template,
                                                  const std::vector<std::string>& assignments);

// What a request body lacks of {type, data}. errc::usage if it is not a JSON object.
enum class request_form { complete, without_type, bare_data };
[[nodiscard]] policy::result<request_form> form_of(std::string_view body);

// The body with the template's type; bare data is wrapped in "data". errc::bad_answer if the
// template has no type.
[[nodiscard]] policy::result<std::string> completed(std::string_view request_template, std::string_view body);

// The catalog service over HTTP (platform-api sections 4.1, 4.2). Ids are typed by people: an
// empty one is errc::usage.
class catalog_client {
public:
    // The channel must outlive this object. base_url: as configured, without a trailing slash.
    catalog_client(api_channel& channel, std::string base_url)
        : channel_(channel), base_url_(std::move(base_url))
    {
    }

    // The item's request template, as the JSON text that the service sends.
    io::task<std::string> request_template(std::string item, std::string business_group);

    // Starts a provisioning request. A body without a type gets the template's, bare data is wrapped in
    // "data". Never repeated: errc::no_answer leaves open whether it was started, and says how to find out.
    io::task<submitted_request> submit(std::string item, std::string business_group, std::string body);

    io::task<request_state> show(std::string request_id);

    // The action's form, as the JSON text that the service sends.
    io::task<std::string> action_form(std::string resource, std::string action);

    io::task<element_values> action_values(std::string resource, std::string action,
                                           std::vector<std::string> elements);

private:
    // Returns the body, which must be a JSON object.
    io::task<std::string> get_object(api_call);

    api_channel& channel_;
    std::string base_url_;
};

}  // namespace platform
