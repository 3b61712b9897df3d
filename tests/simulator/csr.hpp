#pragma once

#include "openssl.hpp"

#include <string>
#include <string_view>
#include <vector>

// Parses the certificate signing request of a new user.

namespace simulator {

struct signing_request {
    std::string common_name{};
    std::string encoding{};           // pem | der
    std::string public_key_sha256{};  // of the SubjectPublicKeyInfo, hex
    openssl::key_ptr public_key{};
    std::vector<std::string> oddities{};  // accepted, but not what the reference requires
};

// `posted`: base64 of PEM or DER. Throws bad_request unless the signature verifies, the subject is a single
// common name of at most 64 characters that starts with `prefix`, and the requested extended key usage, if
// any, is clientAuth only.
signing_request read_signing_request(std::string_view posted, std::string_view prefix);

}  // namespace simulator
