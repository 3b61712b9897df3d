#pragma once

#include "behaviour.hpp"
#include "ca.hpp"
#include "exposure.hpp"

#include <boost/json/object.hpp>

#include <string>

// How instances, users and certificates appear in responses, in each form that the behaviour can select.

namespace simulator {

std::string status_of(const instance& shown, const exposure_behaviour& rules);
std::string status_of(const user& shown, const exposure_behaviour& rules);

boost::json::object view_of(const instance& shown, const exposure_behaviour& rules);

// A list item, without csr and certificate.
boost::json::object view_of(const user& shown, const exposure_behaviour& rules);

// The response to a read of a single user.
boost::json::object full_view_of(const user& shown, const exposure_behaviour& rules,
                                 const user_authority& authority);

}  // namespace simulator
