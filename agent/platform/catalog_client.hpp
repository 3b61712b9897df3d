#pragma once

#include "agent/platform/api_channel.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// The catalog service (platform-api sections 2.1, 2.2, 4.1, 4.2; what they do not show is the underlying
// product's): its JSON, and its calls. Sentences of errc::bad_answer go on from "the answer of HOST: ".

namespace platform {

struct request_state {
    std::string id;    // empty: the answer does not say
    std::string text;  // the catalog's word: "IN_PROGRESS"
    bool finished = false;
    bool succeeded = false;  // only when finished
    std::string details;     // the reason it gives, ready to be shown

    bool operator==(const request_state&) const = default;
};

// Decided by `final` and `successful` where present, else by `phase`, else by `state`.
[[nodiscard]] policy::result<request_state> read_request_state(std::string_view body);

struct submitted_request {
    std::string id;      // empty: the service did not say
    std::string answer;  // as it came; empty unless it is a JSON object
};

// The id of a submitted request: the body's, else the last segment of the Location header, else empty.
std::string read_submitted_id(std::string_view body, std::string_view location);

struct element_values {
    std::map<std::string, crypto::secret> values;  // by element id; numbers and booleans as JSON writes them
    std::map<std::string, std::string> types;      // by element id, what the platform calls the value's type
    std::map<std::string, std::string> missing;    // by element id, why: a sentence each
};

// The extraction rule of section 2.2: the first elementUpdates entry with that id, its first facet of type
// fixedValue, that one's value.value, which must be a string.
[[nodiscard]] policy::result<element_values> extract_values(std::string_view body,
                                                            const std::vector<std::string>& elements);

// {"affectedElements": [...]}
std::string elements_body(const std::vector<std::string>& elements);

// The template with KEY=VALUE laid over its data: a value that is JSON is taken as such, any other as text.
// errc::usage for an assignment without a key and for a key that the template's data lacks, with the nearest
// one.
[[nodiscard]] policy::result<std::string> overlay(std::string_view request_template,
                                                  const std::vector<std::string>& assignments);

// What is missing of {type, data} in a request body. errc::usage when it is no JSON object.
enum class request_form { complete, without_type, bare_data };
[[nodiscard]] policy::result<request_form> form_of(std::string_view body);

// The body with the template's type; bare data is put under "data". errc::bad_answer when the template has no
// type.
[[nodiscard]] policy::result<std::string> completed(std::string_view request_template, std::string_view body);

// The catalog service over HTTP (platform-api sections 4.1, 4.2). Ids come from people: an empty one is
// errc::usage.
class catalog_client {
public:
    // The channel outlives this. base_url: of the configuration, without a slash at its end.
    catalog_client(api_channel& channel, std::string base_url)
        : channel_(channel), base_url_(std::move(base_url))
    {
    }

    // The item's request template, JSON as the service sends it.
    io::task<std::string> request_template(std::string item, std::string business_group);

    // Starts a provisioning request. A body without a type gets the template's, bare data is put under
    // "data". Never repeated: errc::no_answer leaves open whether it was started, and says how to look.
    io::task<submitted_request> submit(std::string item, std::string business_group, std::string body);

    io::task<request_state> show(std::string request_id);

    // The action's form, JSON as the service sends it.
    io::task<std::string> action_form(std::string resource, std::string action);

    io::task<element_values> action_values(std::string resource, std::string action,
                                           std::vector<std::string> elements);

private:
    // An answer that is a JSON object, as its text.
    io::task<std::string> get_object(api_call);

    api_channel& channel_;
    std::string base_url_;
};

}  // namespace platform
