#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>

// A CA that exists for one test: issues server certificates with arbitrary names and dates.

namespace support {

struct server_identity {
    std::string certificate;  // PEM
    std::string key;          // PEM
    long serial = 0;
};

class test_ca {
public:
    test_ca() : key_(::EVP_EC_gen("P-256")), certificate_(make(name(), key_.get(), {}, -day, 365 * day, true))
    {
    }

    std::string pem() const { return pem_of(certificate_.get()); }

    // names in openssl.cnf syntax: "DNS:localhost,IP:127.0.0.1"; dates in seconds from now.
    server_identity issue(const std::string& names, long not_before = -day, long not_after = day)
    {
        const key server_key(::EVP_EC_gen("P-256"));
        const auto issued = make("server", server_key.get(), names, not_before, not_after, false);
        const bio out(::BIO_new(::BIO_s_mem()));
        ::PEM_write_bio_PKCS8PrivateKey(out.get(), server_key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        return {pem_of(issued.get()), text_of(out.get()), serial_};
    }

    // A CRL as PEM; serial 0 revokes nothing.
    std::string crl(long revoked_serial)
    {
        const std::unique_ptr<X509_CRL, decltype(&::X509_CRL_free)> list(::X509_CRL_new(), &::X509_CRL_free);
        ::X509_CRL_set_version(list.get(), 1);
        ::X509_CRL_set_issuer_name(list.get(), ::X509_get_subject_name(certificate_.get()));
        const time now(::X509_gmtime_adj(nullptr, -day), &::ASN1_TIME_free);
        const time next(::X509_gmtime_adj(nullptr, day), &::ASN1_TIME_free);
        ::X509_CRL_set1_lastUpdate(list.get(), now.get());
        ::X509_CRL_set1_nextUpdate(list.get(), next.get());
        if (revoked_serial != 0) {
            auto* entry = ::X509_REVOKED_new();
            const std::unique_ptr<ASN1_INTEGER, decltype(&::ASN1_INTEGER_free)> serial(::ASN1_INTEGER_new(),
                                                                                       &::ASN1_INTEGER_free);
            ::ASN1_INTEGER_set(serial.get(), revoked_serial);
            ::X509_REVOKED_set_serialNumber(entry, serial.get());
            ::X509_REVOKED_set_revocationDate(entry, now.get());
            ::X509_CRL_add0_revoked(list.get(), entry);
        }
        ::X509_CRL_sign(list.get(), key_.get(), ::EVP_sha256());
        const bio out(::BIO_new(::BIO_s_mem()));
        ::PEM_write_bio_X509_CRL(out.get(), list.get());
        return text_of(out.get());
    }

    static constexpr long day = 24 * 3600;

private:
    struct release {
        void operator()(EVP_PKEY* p) const { ::EVP_PKEY_free(p); }
        void operator()(X509* p) const { ::X509_free(p); }
        void operator()(BIO* p) const { ::BIO_free(p); }
    };
    using key = std::unique_ptr<EVP_PKEY, release>;
    using certificate = std::unique_ptr<X509, release>;
    using bio = std::unique_ptr<BIO, release>;
    using time = std::unique_ptr<ASN1_TIME, decltype(&::ASN1_TIME_free)>;

    // A unique name: two CAs with the same name would differ only by their signatures.
    static std::string name()
    {
        static int count = 0;
        return "Test CA " + std::to_string(++count);
    }

    static std::string text_of(BIO* memory)
    {
        char* data = nullptr;
        const auto size = BIO_get_mem_data(memory, &data);
        return std::string(data, static_cast<std::size_t>(size));
    }

    static std::string pem_of(X509* issued)
    {
        const bio out(::BIO_new(::BIO_s_mem()));
        ::PEM_write_bio_X509(out.get(), issued);
        return text_of(out.get());
    }

    certificate make(const std::string& common_name, EVP_PKEY* subject_key, const std::string& names,
                     long not_before, long not_after, bool is_ca)
    {
        certificate made(::X509_new());
        ::X509_set_version(made.get(), 2);
        ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), ++serial_);
        ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), not_before);
        ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), not_after);
        ::X509_set_pubkey(made.get(), subject_key);
        auto* subject = ::X509_get_subject_name(made.get());
        ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
        ::X509_set_issuer_name(made.get(), is_ca ? subject : ::X509_get_subject_name(certificate_.get()));
        add(made.get(), NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
        if (!names.empty()) add(made.get(), NID_subject_alt_name, names.c_str());
        if (::X509_sign(made.get(), key_.get(), ::EVP_sha256()) == 0) throw std::runtime_error("cannot sign");
        return made;
    }

    static void add(X509* to, int nid, const char* value)
    {
        auto* extension = ::X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
        if (!extension) throw std::runtime_error(std::string("bad extension ") + value);
        ::X509_add_ext(to, extension, -1);
        ::X509_EXTENSION_free(extension);
    }

    long serial_ = 0;
    key key_;
    certificate certificate_;
};

}  // namespace support
