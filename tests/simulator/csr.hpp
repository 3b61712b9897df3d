#pragma once

#include "openssl.hpp"

#include <string>
#include <string_view>
#include <vector>

// Reads the certificate signing request of a new user.

namespace simulator {

struct signing_request {
    std::string common_name{};
    std::string encoding{};           // pem | der
    std::string public_key_sha256{};  // hex, of the SubjectPublicKeyInfo
    openssl::key_ptr public_key{};
    std::vector<std::string> oddities{};  // accepted, but not what the reference asks for
};

// `posted`: base64 of PEM or of DER. Throws bad_request unless its signature holds, the subject is one common
// name of at most 64 characters that starts with `prefix`, and the usage it asks for (if any) is clientAuth
// alone.
signing_request read_signing_request(std::string_view posted, std::string_view prefix);

}  // namespace simulator
