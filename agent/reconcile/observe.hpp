#pragma once

#include "agent/reconcile/state.hpp"
#include "policy/observed.hpp"

namespace reconcile {

platform::exposure_address address_of(const policy::desired_exposure&);
platform::exposure_address address_of(const std::string& exposure, const policy::place&);

// Observes one exposure: its instance and the users that the inquiry names, each by its id. Where it asks for
// the list, or something is missing by id: the instances, the list, and a single read of every id that the
// list lacks. A failure is part of what was seen. Of the users in the list, those of this owner and those
// asked for are kept.
io::awaitable<policy::observed_exposure> observe(platform::exposure_api&, policy::desired_exposure,
                                                 policy::inquiry, std::string owner, policy::instant now);

// What the Date headers of the exposure's platform said, and of those where its users still live.
void note_clocks(state&, const std::string& exposure);

}  // namespace reconcile
