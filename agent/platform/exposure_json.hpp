#pragma once

#include "agent/platform/exposure_api.hpp"

#include <string>
#include <string_view>
#include <vector>

// JSON of the exposure API to values and back (platform-api sections 2.3, 2.4, 4.4; contract section 3).
// Readers are tolerant: every known spelling of a field, unknown fields ignored, missing ones empty. What
// they do not believe is errc::bad_answer; its sentence goes on from "the answer of HOST: ".

namespace platform {

// Every instance must have an id. `items` may be null (an empty list); an object without it is no list.
[[nodiscard]] policy::result<std::vector<policy::remote_instance>> read_instances(std::string_view body);

// An entry without a usable id is left out, and the list counts as cut off.
[[nodiscard]] policy::result<user_list> read_users(std::string_view body);

[[nodiscard]] policy::result<user_detail> read_user(std::string_view body);

// The id in the answer to a POST; empty when there is none, whatever the answer is.
std::string read_created_id(std::string_view body);

// Bodies of the POSTs, exactly the fields of the reference; the health variant calls a group a space. The id
// of a group is left out when it is empty.
std::string instance_body(policy::variant, const policy::business_group&);
std::string user_body(policy::variant, const policy::submission&, const policy::business_group&,
                      std::string_view csr);

}  // namespace platform
