#pragma once

#include "policy/action.hpp"
#include "policy/result.hpp"
#include "policy/stored.hpp"

#include <optional>

// What a person may ask for beside the plan: the steps of `rollback` and `deploy`.

namespace policy {

// Returns to the previous certificate; errc::usage when there is none that can be used.
result<action> roll_back(const stored_user&);
failure no_way_back(const user_name&);

// True when `rollback` can return to the certificate before the one in use.
bool can_roll_back(const stored_user&);

// The hooks that have not returned 0 yet; with `force`, of the certificate in use whatever they returned.
std::optional<action> pending_hooks(const stored_user&, bool force);

}  // namespace policy
