#pragma once

#include "crypto/certificate.hpp"
#include "crypto/key.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <string>
#include <string_view>

namespace crypto {

// A PKCS#12 file (RFC 7292, DER) with the key, its certificate and the rest of the chain, encrypted with
// AES-256 and authenticated with SHA-256: OpenJDK 17 and librdkafka read it, Java before 8u301 does not. The
// friendly name is the alias that Java shows. Salts are random: the same arguments never give the same bytes.
// errc::crypto: an empty password or one with a NUL byte, a key that does not fit the leaf, or OpenSSL
// refused.
[[nodiscard]] policy::result<secret> make_pkcs12(const private_key&, const certificate_chain&,
                                                 const std::string& friendly_name, const secret& password);

// Whether these bytes are a PKCS#12 file that the password opens and that holds exactly this key and chain.
// Since no two files are the same, this is how one is recognised as still good.
bool is_pkcs12_of(std::string_view file, const secret& password, const private_key&,
                  const certificate_chain&);

}  // namespace crypto
