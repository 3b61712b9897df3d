#pragma once

#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/stored.hpp"

// When a certificate is due (contract section 2). Derived, never drawn: the same inputs give the same
// instant.

namespace policy {

struct rotation_time {
    instant at;             // rotate_at = expiry - renew_before - spread
    bool lead_cut = false;  // renew_before was not smaller than the lifetime: a third of it counts instead
};

rotation_time rotate_at(const certificate_facts&, const lead& renew_before, const std::string& owner,
                        const user_name&);

}  // namespace policy
