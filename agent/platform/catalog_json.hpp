#pragma once

#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// JSON of the catalog service (platform-api sections 2.1, 2.2, 4.1, 4.2; what it does not show is the
// underlying product's, ecosystem 1.5). Sentences of errc::bad_answer go on from "the answer of HOST: ".

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

// The id of a submitted request: the body's, else the last segment of the Location header, else empty.
std::string read_submitted_id(std::string_view body, std::string_view location);

struct element_values {
    std::map<std::string, crypto::secret> values;  // by element id
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

// Whether a request body says its type. errc::usage when it is no JSON object.
[[nodiscard]] policy::result<bool> names_type(std::string_view body);

// The body with the template's type. errc::bad_answer when that has none.
[[nodiscard]] policy::result<std::string> with_type_of(std::string_view request_template,
                                                       std::string_view body);

}  // namespace platform
