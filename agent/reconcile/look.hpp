#pragma once

#include "agent/platform/exposure_api.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

namespace reconcile {

platform::exposure_address address_of(const policy::desired_exposure&);
platform::exposure_address address_of(const std::string& exposure, const policy::place&);

// Ids of ours that the list of this exposure should have.
std::vector<std::string> known_ids(const policy::stored_state&, const policy::desired_exposure&);

// One look at one exposure: its instances, the users of the one, and a single read of every known id that the
// list lacks. Two GETs when nothing is missing. A failure is part of what was seen.
io::awaitable<policy::observed_exposure> look(platform::exposure_api&, policy::desired_exposure,
                                              std::vector<std::string> known, policy::instant now);

}  // namespace reconcile
