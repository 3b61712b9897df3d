#pragma once

#include "policy/desired.hpp"
#include "policy/stored.hpp"

#include <string>
#include <vector>

// What a pass asks the platform (contract sections 9 and 10): its own users by id, or the list of all users
// of the tenant. A pass in which nothing must be found or confirmed costs what is ours, not what the tenant
// has.

namespace policy {

struct inquiry {
    std::string instance = {};          // the known one; empty: none
    std::vector<std::string> ids = {};  // of our users that the platform should have
    bool list = true;                   // by id is not enough
    bool due = false;                   // it was not fetched lately: when it is, is worth keeping
    bool others = false;                // of the list, users of other owners are wanted as well
};

// The list is needed where no instance is known, with more than limits::read_by_id users, once a day, while
// the outcome of a POST is open, once its late double would show, after a deletion that failed, and when a
// user is to be removed.
inquiry inquiry_of(const desired_state&, const desired_exposure&, const stored_state&, instant now);

// When the list is due again after it was fetched: once in 24 h, at a time of day that the owner and the
// exposure decide, so that a fleet does not fetch it at the same moment.
instant next_list_after(const std::string& owner, const std::string& exposure, instant fetched);

}  // namespace policy
