#pragma once

#include "agent/disk/paths.hpp"
#include "policy/result.hpp"
#include "policy/stored.hpp"

#include <map>
#include <optional>
#include <string>

// Internal to this room: the reading half of the private store. What is there but cannot be used becomes a
// record with `unreadable`; the failures are those of the whole directory.

namespace disk {

[[nodiscard]] policy::result<void> load_users(const paths&,
                                              std::map<policy::user_name, policy::stored_user>&);

[[nodiscard]] policy::result<void> load_exposures(const paths&,
                                                  std::map<std::string, policy::stored_exposure>&);

// None: no record. A failure also when it cannot be used: for those who would write it.
[[nodiscard]] policy::result<std::optional<policy::stored_user>> load_user(const paths&,
                                                                           const policy::user_name&);

// Whether any user was ever written here.
bool holds_users(const paths&);

}  // namespace disk
