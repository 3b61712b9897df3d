#pragma once

#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <memory>
#include <string>
#include <string_view>

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace crypto {

// A private key of one of the six configurable types. Immutable, so threads may share it.
class private_key {
public:
    // May take seconds (RSA 4096): call it off the event loop. Several threads may generate at the same time.
    // errc::crypto: an error from OpenSSL or the system's random source.
    [[nodiscard]] static policy::result<private_key> generate(policy::key_type);

    // Reads unencrypted PKCS#8 or the older PEM formats. errc::crypto:
    // unreadable, encrypted, or of a type that we do not generate.
    [[nodiscard]] static policy::result<private_key> from_pem(std::string_view);

    // The same for an encrypted key. errc::crypto also for a wrong password.
    [[nodiscard]] static policy::result<private_key> from_encrypted_pem(std::string_view,
                                                                        const secret& password);

    // PKCS#8, unencrypted: Java 17 cannot read keys encrypted by OpenSSL 3.
    [[nodiscard]] policy::result<secret> to_pem() const;

    policy::key_type type() const noexcept { return type_; }

    // SHA-256 of the SubjectPublicKeyInfo in DER, as 64 lower-case hex digits. The first 8 are the generation
    // id, the first 16 are in the marker (contract section 3).
    const std::string& fingerprint() const noexcept { return fingerprint_; }

    evp_pkey_st* native() const noexcept { return key_.get(); }

private:
    struct release {
        void operator()(evp_pkey_st*) const noexcept;
    };
    using handle = std::unique_ptr<evp_pkey_st, release>;

    private_key(handle, policy::key_type, std::string fingerprint);
    static policy::result<private_key> own(handle);

    handle key_;
    policy::key_type type_;
    std::string fingerprint_;
};

// True when reading the key requires a password.
bool is_encrypted(std::string_view pem);

// A certificate signing request in both encodings.
struct csr {
    std::string der;
    std::string pem;

    bool operator==(const csr&) const = default;
};

// A PKCS#10 request (RFC 2986) as specified in contract section 3: the subject is only the common name
// (UTF8String), the only requested extension is extendedKeyUsage clientAuth; signed with SHA-256, or by
// Ed25519 with its own digest. errc::crypto: an empty common name, one over 64 characters, or OpenSSL failed.
[[nodiscard]] policy::result<csr> make_csr(const private_key&, std::string_view common_name);

}  // namespace crypto
