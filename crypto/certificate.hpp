#pragma once

#include "crypto/key.hpp"
#include "crypto/secret.hpp"
#include "policy/dates.hpp"
#include "policy/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Certificates as values: parsed leniently, described, ordered and judged.

namespace crypto {

struct certificate_facts {
    std::string subject_cn;  // last common name, control characters escaped; empty: none
    std::string issuer;      // one line, RFC 2253
    std::string serial_hex;  // as printed by `openssl x509 -serial`, for example "0A3F"
    policy::instant not_before;
    policy::instant not_after;
    std::string public_key_fingerprint;  // as in private_key::fingerprint()
    std::string sha256;                  // of the whole certificate, 64 lower-case hex digits
    std::optional<bool> client_auth;     // unset: no extended key usage, so any use is allowed

    bool operator==(const certificate_facts&) const = default;
};

struct certificate {
    std::string der;  // the original bytes
    certificate_facts facts;

    [[nodiscard]] std::string pem() const;

    bool operator==(const certificate&) const = default;
};

// Parses whatever a platform sends as a certificate (the reference has no example): PEM, one or several in
// any order, with any line endings or none, with escaped ones (a backslash and an n), with surrounding text;
// base64 or base64url of that or of DER; DER. Returns each certificate once, in order of appearance, at least
// one and at most limits::chain_certificates. errc::unusable_certificate names what was found instead, such
// as a PKCS#7 bundle. Never throws, for any input.
[[nodiscard]] policy::result<std::vector<certificate>> read_chain(std::string_view text);

struct certificate_chain {
    certificate leaf;
    std::vector<certificate> rest;  // the leaf's issuer first; only certificates on the leaf's path

    bool operator==(const certificate_chain&) const = default;
};

// The leaf is the certificate for our public key (of two, the one that expires later). Certificates that are
// not on its path are dropped, because Java key stores reject chains with unrelated certificates.
// errc::unusable_certificate: none of them is for our key.
[[nodiscard]] policy::result<certificate_chain> order_chain(std::vector<certificate>,
                                                            std::string_view key_fingerprint);

enum class verdict { usable, wrong_key, expired, not_yet_valid, wrong_usage };

// Contract section 3: our public key, valid now, and extended key usage (if present) allows clientAuth.
verdict judge(const certificate& leaf, std::string_view key_fingerprint, policy::instant now) noexcept;

// A PKCS#12 file (RFC 7292, DER) with the key, its certificate and the rest of the chain,
// encrypted with AES-256 and authenticated with SHA-256: OpenJDK 17 and librdkafka can
// read it, Java before 8u301 cannot. The friendly name is the alias that Java shows. Salts
// are random: the same arguments never give the same bytes. errc::crypto: the password is
// empty or contains a NUL byte, the key does not match the leaf, or OpenSSL failed.
[[nodiscard]] policy::result<secret> make_pkcs12(const private_key&, const certificate_chain&,
                                                 const std::string& friendly_name, const secret& password);

}  // namespace crypto
