#pragma once

#include "agent/service/application.hpp"
#include "crypto/secret.hpp"
#include "policy/events.hpp"

#include <string>
#include <vector>

// `import`: a user that was made by hand, and its key and certificate, are managed from now on.

namespace service {

struct import_request {
    crypto::secret key_pem;   // not encrypted
    std::string certificate;  // the leaf, and its chain if there is one
    std::string remote_id;    // empty: the user is found by its certificate
    bool retire = false;      // the user is deleted once its successor is in use
};

// Finds the user on the platform, notes that it is ours, and publishes the pair; its hooks are left to the
// next pass, and none is pending where the files were there already. The exposure is held. What is said to
// people. errc::usage, refused, unusable_certificate: nothing has changed.
io::task<std::vector<std::string>> import_pair(application&, const reconcile::world::hold&, policy::user_name,
                                               import_request, policy::origin);

}  // namespace service
