#pragma once

#include "agent/reconcile/state.hpp"
#include "policy/observed.hpp"

namespace reconcile {

platform::exposure_address address_of(const policy::desired_exposure&);
platform::exposure_address address_of(const std::string& exposure, const policy::place&);

// Observes one exposure: its instance, and the users that the inquiry names, each by id. If the inquiry wants
// the list, or something is missing by id: lists the instances and users, then reads each id that the list
// lacks. A failure is part of the result. Of the listed users, keeps those of this owner and those that the
// inquiry names.
io::awaitable<policy::observed_exposure> observe(platform::exposure_api&, policy::desired_exposure,
                                                 policy::inquiry, std::string owner, policy::instant now);

// Stores the clock difference (Date headers) of the exposure's platform, and of those its users are still on.
void note_clocks(state&, const std::string& exposure);

}  // namespace reconcile
