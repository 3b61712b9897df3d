#pragma once

#include "crypto/key.hpp"
#include "crypto/openssl.hpp"

#include <openssl/pem.h>

#include <ctime>
#include <stdexcept>
#include <string>

// A certificate authority for tests: real keys and signatures, created when the test runs.

namespace test_support {

struct certificate_options {
    std::string common_name = "logs-tenant-user-00000000";
    std::time_t not_before = 1'700'000'000;         // 2023-11-14T22:13:20Z
    std::time_t not_after = 2'000'000'000;          // 2033-05-18T03:33:20Z
    std::string extended_key_usage = "clientAuth";  // openssl.cnf syntax; empty: no extension
    std::string serial = "0A3F";                    // hex
};

class test_ca {
public:
    // Self-signed.
    explicit test_ca(const std::string& name)
        : key_(crypto::private_key::generate(policy::key_type::ecdsa_p256).value()),
          certificate_(build(name, key_.native(), nullptr, authority_options(name), true))
    {
    }

    // Signed by `parent`.
    test_ca(const std::string& name, const test_ca& parent)
        : key_(crypto::private_key::generate(policy::key_type::ecdsa_p256).value()),
          certificate_(build(name, key_.native(), &parent, authority_options(name), true))
    {
    }

    std::string pem() const { return text_of(certificate_.get()); }

    // Issues a certificate for this public key, as PEM.
    std::string issue(const crypto::private_key& subject, const certificate_options& options = {}) const
    {
        return text_of(build(options.common_name, subject.native(), this, options, false).get());
    }

    // Issues a certificate for the key and subject of a CSR (DER), as the platform would.
    std::string sign(const std::string& csr_der, certificate_options options = {}) const
    {
        auto* at = reinterpret_cast<const unsigned char*>(csr_der.data());
        const crypto::openssl::x509_req request(
            d2i_X509_REQ(nullptr, &at, static_cast<long>(csr_der.size())));
        check(request != nullptr && X509_REQ_verify(request.get(), X509_REQ_get0_pubkey(request.get())) == 1);
        char name[256] = {};
        X509_NAME_get_text_by_NID(X509_REQ_get_subject_name(request.get()), NID_commonName, name,
                                  sizeof name);
        options.common_name = name;
        return text_of(
            build(options.common_name, X509_REQ_get0_pubkey(request.get()), this, options, false).get());
    }

private:
    static void check(bool done)
    {
        if (!done) throw std::runtime_error("the test's certificate authority failed");
    }

    static certificate_options authority_options(const std::string& name)
    {
        return {.common_name = name, .extended_key_usage = "", .serial = "01"};
    }

    static void extend(X509* x, X509* issuer, int nid, const char* value)
    {
        X509V3_CTX context = {};
        X509V3_set_ctx(&context, issuer, x, nullptr, nullptr, 0);
        const crypto::openssl::x509_extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
        check(extension && X509_add_ext(x, extension.get(), -1) == 1);
    }

    static crypto::openssl::x509 build(const std::string& name, EVP_PKEY* subject, const test_ca* parent,
                                       const certificate_options& options, bool authority)
    {
        crypto::openssl::x509 x(X509_new());
        BIGNUM* serial = nullptr;
        check(BN_hex2bn(&serial, options.serial.c_str()) > 0);
        BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(x.get()));
        BN_free(serial);
        X509_set_version(x.get(), X509_VERSION_3);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x.get()), "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.data()),
                                   static_cast<int>(name.size()), -1, 0);
        X509* const issuer = parent != nullptr ? parent->certificate_.get() : x.get();
        X509_set_issuer_name(x.get(), X509_get_subject_name(issuer));
        ASN1_TIME_set(X509_getm_notBefore(x.get()), options.not_before);
        ASN1_TIME_set(X509_getm_notAfter(x.get()), options.not_after);
        X509_set_pubkey(x.get(), subject);
        extend(x.get(), issuer, NID_subject_key_identifier, "hash");
        extend(x.get(), issuer, NID_authority_key_identifier, "keyid:always");
        extend(x.get(), issuer, NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
        if (!options.extended_key_usage.empty())
            extend(x.get(), issuer, NID_ext_key_usage, options.extended_key_usage.c_str());
        check(X509_sign(x.get(), parent != nullptr ? parent->key_.native() : subject, EVP_sha256()) > 0);
        return x;
    }

    static std::string text_of(const X509* x)
    {
        return crypto::openssl::to_pem(PEM_STRING_X509, crypto::openssl::to_der<i2d_X509>(x));
    }

    crypto::private_key key_;
    crypto::openssl::x509 certificate_;
};

}  // namespace test_support
