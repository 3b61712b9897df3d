#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/service/status_view.hpp"

#include <vector>

namespace service {

// How the kept credentials of the file stand, from their records on disk.
std::vector<credential_view> credential_views(const policy::desired_state&, const disk::paths&);

}  // namespace service
