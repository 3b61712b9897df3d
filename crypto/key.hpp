#pragma once

#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <memory>
#include <string>
#include <string_view>

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace crypto {

// A private key of one of the six types that the configuration knows. Immutable; several threads may use one.
class private_key {
public:
    // May take seconds (RSA 4096): call it off the loop. Any number of threads may generate at once.
    // errc::crypto: OpenSSL or the system's random source refused.
    [[nodiscard]] static policy::result<private_key> generate(policy::key_type);

    // Reads PKCS#8 or the older PEM forms, not encrypted. errc::crypto: unreadable, encrypted, or of a type
    // that we do not make.
    [[nodiscard]] static policy::result<private_key> from_pem(std::string_view);

    // The same for an encrypted key. errc::crypto also for a wrong password.
    [[nodiscard]] static policy::result<private_key> from_encrypted_pem(std::string_view,
                                                                        const secret& password);

    // PKCS#8, not encrypted: Java 17 cannot read what OpenSSL 3 encrypts.
    [[nodiscard]] policy::result<secret> to_pem() const;

    policy::key_type type() const noexcept { return type_; }

    // SHA-256 over the SubjectPublicKeyInfo in DER, 64 lower-case hex digits. Its first 8 name the
    // generation, its first 16 stand in the marker (contract section 3).
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

// Whether a password is needed to read the key.
bool is_encrypted(std::string_view pem);

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
