#pragma once

#include "http.hpp"

#include <string>
#include <string_view>

// Maps a request to a call of the reference.

namespace simulator {

// An exposure service: its path prefix corresponds to a host name in the reference.
struct variant {
    std::string_view name{};         // log | health | lifecycle
    std::string_view path{};         // first segment of its paths
    std::string_view name_prefix{};  // prefix of common names and topics
    bool spaces;                     // uses spaceID and spaceName
};

// Looks up a variant by any of its three names; throws bad_request if there is none.
const variant& find_variant(std::string_view name_or_path);

struct route {
    // authorize, token, platform_api, list_instances, create_instance, get_instance, list_users, create_user,
    // get_user, delete_user, catalog_template, catalog_submit, catalog_request, action_form, action_values,
    // swagger; not_found, wrong_method
    std::string operation = "not_found";
    const variant* service = nullptr;
    std::string tenant{};
    std::string instance{};
    std::string user{};
    std::string item{};  // in the catalog: id of the item, request or resource
    std::string action{};
};

route find_route(const request& incoming);

}  // namespace simulator
