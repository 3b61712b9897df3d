#pragma once

#include "behaviour.hpp"
#include "ca.hpp"
#include "exposure.hpp"

#include <boost/json/object.hpp>

#include <string>

// How instances, users and certificates look in an answer, in every spelling that the behaviour names.

namespace simulator {

std::string status_of(const instance& shown, const exposure_behaviour& rules);
std::string status_of(const user& shown, const exposure_behaviour& rules);

boost::json::object view_of(const instance& shown, const exposure_behaviour& rules);

// An item of the list: without csr and certificate.
boost::json::object view_of(const user& shown, const exposure_behaviour& rules);

// The answer of the single read.
boost::json::object full_view_of(const user& shown, const exposure_behaviour& rules,
                                 const user_authority& authority);

}  // namespace simulator
