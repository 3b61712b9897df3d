#pragma once

#include "agent/service/operations.hpp"

#include <string>
#include <vector>

// `import`: a user that was made by hand, and its key and certificate, are managed from now on.

namespace service {

// Finds the user on the platform, notes that it is ours, and publishes the pair; its hooks are left to the
// next pass, and none is pending where the files were there already. The exposure is held. What is said to
// people. errc::usage, refused, unusable_certificate: nothing has changed.
io::task<std::vector<std::string>> import_pair(application&, const reconcile::state::hold&, verb::import);

}  // namespace service
