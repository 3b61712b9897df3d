#include "crypto/pkcs12.hpp"

#include "crypto/openssl.hpp"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crypto {
namespace {

constexpr int iterations = 10'000;  // what keytool 17 writes
constexpr int salt_bytes = 16;
constexpr int without_mac = -1;

openssl::x509 parse(const certificate& one)
{
    auto* at = reinterpret_cast<const unsigned char*>(one.der.data());
    return openssl::x509(d2i_X509(nullptr, &at, static_cast<long>(one.der.size())));
}

openssl::x509_list parse(const std::vector<certificate>& all)
{
    openssl::x509_list list(sk_X509_new_null());
    for (const auto& one : all) {
        openssl::x509 x = parse(one);
        if (!x || sk_X509_push(list.get(), x.get()) == 0) return nullptr;
        x.release();  // the list owns it now
    }
    return list;
}

policy::failure unsuitable(std::string what)
{
    return {.code = policy::errc::crypto, .context = std::move(what), .kind = policy::retry::after_change};
}

}  // namespace

policy::result<secret> make_pkcs12(const private_key& key, const certificate_chain& chain,
                                   const std::string& friendly_name, const secret& password)
{
    if (password.empty() || password.view().find('\0') != std::string_view::npos)
        return unsuitable("the password of the PKCS#12 file is empty or holds a NUL byte");
    if (chain.leaf.facts.public_key_fingerprint != key.fingerprint())
        return unsuitable("the certificate for the PKCS#12 file is for another key");

    const openssl::error_queue errors;
    const openssl::x509 leaf = parse(chain.leaf);
    const openssl::x509_list rest = parse(chain.rest);
    if (!leaf || !rest) return errors.failure("cannot read the certificates for the PKCS#12 file");

    // the MAC is set apart, because PKCS12_create leaves its digest to the version of OpenSSL
    const openssl::pkcs12 file(PKCS12_create(password.c_str(), friendly_name.c_str(), key.native(),
                                             leaf.get(), rest.get(), NID_aes_256_cbc, NID_aes_256_cbc,
                                             iterations, without_mac, 0));
    if (!file ||
        PKCS12_set_mac(file.get(), password.c_str(), -1, nullptr, salt_bytes, iterations, EVP_sha256()) != 1)
        return errors.failure("cannot make the PKCS#12 file");
    std::string der = openssl::to_der<i2d_PKCS12>(file.get());
    if (der.empty()) return errors.failure("cannot encode the PKCS#12 file");
    return secret(std::move(der));
}

bool is_pkcs12_of(std::string_view file, const secret& password, const private_key& key,
                  const certificate_chain& chain)
{
    const openssl::error_queue errors;
    auto* at = reinterpret_cast<const unsigned char*>(file.data());
    const openssl::pkcs12 opened(d2i_PKCS12(nullptr, &at, static_cast<long>(file.size())));
    const auto* end = reinterpret_cast<const unsigned char*>(file.data() + file.size());
    if (!opened || at != end || password.empty()) return false;

    EVP_PKEY* found_key = nullptr;
    X509* found_leaf = nullptr;
    STACK_OF(X509)* found_rest = nullptr;
    if (PKCS12_parse(opened.get(), password.c_str(), &found_key, &found_leaf, &found_rest) != 1) return false;
    const openssl::pkey owned_key(found_key);
    const openssl::x509 owned_leaf(found_leaf);
    const openssl::x509_list owned_rest(found_rest);
    if (!found_key || !found_leaf || EVP_PKEY_eq(found_key, key.native()) != 1) return false;

    std::multiset<std::string> expected = {chain.leaf.der};
    for (const auto& one : chain.rest)
        expected.insert(one.der);
    std::multiset<std::string> found = {openssl::to_der<i2d_X509>(found_leaf)};
    for (int i = 0; found_rest && i < sk_X509_num(found_rest); ++i)
        found.insert(openssl::to_der<i2d_X509>(sk_X509_value(found_rest, i)));
    return found == expected;
}

}  // namespace crypto
