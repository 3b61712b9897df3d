#pragma once

#include "agent/platform/api_channel.hpp"
#include "agent/platform/catalog_json.hpp"

#include <string>
#include <vector>

namespace platform {

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

    // Starts a provisioning request and gives its id (empty: the service did not say). A body without a type
    // gets the template's. Never repeated: errc::no_answer leaves open whether it was started, and says how
    // to look.
    io::task<std::string> submit(std::string item, std::string business_group, std::string body);

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
