#pragma once

#include "agent/service/operations.hpp"

#include <string>
#include <vector>

// `import`: takes over a user that was created by hand, with its key and certificate.

namespace service {

// Finds the user on the platform, records it as ours, and publishes the pair. Its hooks are left to the next
// pass; none are pending if the same files were already there. The exposure's lock is held. Returns the
// messages for people. errc::usage, refused, unusable_certificate: nothing has changed.
io::task<std::vector<std::string>> import_pair(application&, const reconcile::state::hold&, verb::import);

}  // namespace service
