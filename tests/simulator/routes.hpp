#pragma once

#include "http.hpp"

#include <string>
#include <string_view>

// Which call of the reference a request is.

namespace simulator {

// One of the exposure services: its path prefix is its host in the reference.
struct variant {
    std::string_view name{};         // log | health | lifecycle
    std::string_view path{};         // first segment of its paths
    std::string_view name_prefix{};  // of common names and topics
    bool spaces;                     // speaks of spaceID and spaceName
};

// By one of its three names; throws bad_request when there is none.
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
    std::string item{};  // of the catalog: item, request or resource
    std::string action{};
};

route find_route(const request& incoming);

}  // namespace simulator
