#pragma once

#include "agent/service/application.hpp"
#include "policy/forecast.hpp"

#include <string>

// The forecast, read from the disk alone, as `forecast` and the status page show it.

namespace service {

// Users and the login. The state must be loaded.
io::task<policy::forecast_result> forecast_of(application&, policy::instant until);

// "&lt;" for "<" and the like, control characters made visible: for HTML and XML, attributes included.
std::string escape(const std::string&);

// The timeline: one row per user, months from left to right. The classes get their colours from
// timeline_css(), light or dark as the reader prefers.
std::string timeline_svg(const policy::forecast_result&, const std::string& owner, bool with_css);
std::string timeline_css();

// "4 new certificates and 4 deletions, automatic; no login by a person".
std::string summary(const policy::forecast_result&);

}  // namespace service
