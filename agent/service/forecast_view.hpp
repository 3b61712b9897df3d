#pragma once

#include "agent/service/application.hpp"
#include "policy/forecast.hpp"

#include <string>

// The coming time, from the disk alone: what `forecast` and the page show.

namespace service {

// The state is loaded. Users and login alike.
io::task<policy::forecast_result> forecast_of(application&, policy::instant until);

// "&lt;" for "<" and the like, control characters made visible: text for HTML and XML, attributes included.
std::string escape(const std::string&);

// The timeline: a row for each user, months from left to right. Drawn in classes that timeline_css() gives
// their colours, light or dark as the reader prefers.
std::string timeline_svg(const policy::forecast_result&, const std::string& owner, bool with_css);
std::string timeline_css();

// "4 rotations and 4 deletions, all automatic; nobody has to log in".
std::string summary(const policy::forecast_result&);

}  // namespace service
