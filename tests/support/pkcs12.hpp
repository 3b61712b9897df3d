#pragma once

#include "crypto/certificate.hpp"
#include "crypto/openssl.hpp"

#include <openssl/pkcs12.h>

#include <set>
#include <string>
#include <string_view>

namespace test_support {

// True when these bytes are a PKCS#12 file that the password opens and that holds exactly this key and chain.
// Needed to recognize a file that is still good, because no two files are identical.
inline bool is_pkcs12_of(std::string_view file, const crypto::secret& password,
                         const crypto::private_key& key, const crypto::certificate_chain& chain)
{
    const crypto::openssl::error_queue errors;
    auto* at = reinterpret_cast<const unsigned char*>(file.data());
    const crypto::openssl::pkcs12 opened(d2i_PKCS12(nullptr, &at, static_cast<long>(file.size())));
    const auto* end = reinterpret_cast<const unsigned char*>(file.data() + file.size());
    if (!opened || at != end || password.empty()) return false;

    EVP_PKEY* found_key = nullptr;
    X509* found_leaf = nullptr;
    STACK_OF(X509)* found_rest = nullptr;
    if (PKCS12_parse(opened.get(), password.c_str(), &found_key, &found_leaf, &found_rest) != 1) return false;
    const crypto::openssl::pkey owned_key(found_key);
    const crypto::openssl::x509 owned_leaf(found_leaf);
    const crypto::openssl::x509_list owned_rest(found_rest);
    if (!found_key || !found_leaf || EVP_PKEY_eq(found_key, key.native()) != 1) return false;

    std::multiset<std::string> expected = {chain.leaf.der};
    for (const auto& one : chain.rest)
        expected.insert(one.der);
    std::multiset<std::string> found = {crypto::openssl::to_der<i2d_X509>(found_leaf)};
    for (int i = 0; found_rest && i < sk_X509_num(found_rest); ++i)
        found.insert(crypto::openssl::to_der<i2d_X509>(sk_X509_value(found_rest, i)));
    return found == expected;
}

}  // namespace test_support
