#pragma once

#include "crypto/key.hpp"
#include "policy/result.hpp"

#include <string>
#include <string_view>

namespace crypto {

// One certificate signing request in its two encodings.
struct csr {
    std::string der;
    std::string pem;

    bool operator==(const csr&) const = default;
};

// PKCS#10 (RFC 2986) as contract section 3 wants it: the subject is the common name alone (UTF8String), the
// one requested extension is extendedKeyUsage clientAuth; signed with SHA-256, by Ed25519 with its own
// digest. errc::crypto: a common name of no or more than 64 characters, or OpenSSL refused.
[[nodiscard]] policy::result<csr> make_csr(const private_key&, std::string_view common_name);

}  // namespace crypto
