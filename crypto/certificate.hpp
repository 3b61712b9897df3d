#pragma once

#include "crypto/key.hpp"
#include "crypto/secret.hpp"
#include "policy/dates.hpp"
#include "policy/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Certificates as values: read tolerantly, described, put in order, judged.

namespace crypto {

struct certificate_facts {
    std::string subject_cn;  // the last common name, control characters escaped; empty: none
    std::string issuer;      // one line, RFC 2253
    std::string serial_hex;  // as `openssl x509 -serial` prints it, e.g. "0A3F"
    policy::instant not_before;
    policy::instant not_after;
    std::string public_key_fingerprint;  // as private_key::fingerprint()
    std::string sha256;                  // of the whole certificate, 64 lower-case hex digits
    std::optional<bool> client_auth;     // none: no extended key usage, anything goes

    bool operator==(const certificate_facts&) const = default;
};

struct certificate {
    std::string der;  // exactly the bytes that were read
    certificate_facts facts;

    [[nodiscard]] std::string pem() const;

    bool operator==(const certificate&) const = default;
};

// Reads what a platform makes of a certificate (the reference shows no example): PEM, one or many in any
// order, with any line ends or none, escaped ones (a backslash and an n) and text around; base64 or base64url
// of that or of DER; DER. Each certificate once, in the order found, at least one and at most
// limits::chain_certificates. errc::unusable_certificate says what was found instead, e.g. a PKCS#7 bundle.
// Never throws on any input.
[[nodiscard]] policy::result<std::vector<certificate>> read_chain(std::string_view text);

struct certificate_chain {
    certificate leaf;
    std::vector<certificate> rest;  // the leaf's issuer first; nothing that does not belong to the path

    bool operator==(const certificate_chain&) const = default;
};

// The leaf is the certificate of our public key (of two, the one that lasts longer). Certificates that are
// not on its path are dropped: key stores of Java refuse a chain with strangers in it.
// errc::unusable_certificate: none of them is for our key.
[[nodiscard]] policy::result<certificate_chain> order_chain(std::vector<certificate>,
                                                            std::string_view key_fingerprint);

enum class verdict { usable, wrong_key, expired, not_yet_valid, wrong_usage };

// Contract section 3: our public key, valid now, and the extended key usage (if any) allows clientAuth.
verdict judge(const certificate& leaf, std::string_view key_fingerprint, policy::instant now) noexcept;

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
