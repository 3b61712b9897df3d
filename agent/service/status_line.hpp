#pragma once

#include "agent/service/status_view.hpp"

#include <string>

namespace service {

// One line for `systemctl status`: "4 certificates ok, next rotation logs/siem-forwarder in 121 d".
std::string status_line(const status_view&, policy::instant now);

}  // namespace service
