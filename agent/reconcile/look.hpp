#pragma once

#include "agent/platform/exposure_api.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

namespace reconcile {

platform::exposure_address address_of(const policy::desired_exposure&);
platform::exposure_address address_of(const std::string& exposure, const policy::place&);

// One look at one exposure: its instances, the users of the one, and a single read of every id that we know
// and the list lacks. Two GETs when nothing is missing. A failure is part of what was seen.
io::awaitable<policy::observed_exposure> look(platform::exposure_api&, policy::desired_exposure,
                                              policy::stored_state, policy::instant now);

}  // namespace reconcile
