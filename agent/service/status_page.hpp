#pragma once

#include "agent/service/status_view.hpp"
#include "agent/service/web_server.hpp"
#include "policy/forecast.hpp"

#include <string>

namespace service {

// The page for people: what needs attention with the command that helps, every user, the coming year (null:
// not known). It runs no script and loads nothing, and its security policy allows neither.
web_answer status_page(const status_view&, const policy::forecast_result*, const std::string& version,
                       policy::instant now);

}  // namespace service
