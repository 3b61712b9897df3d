#pragma once

#include "openssl.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// The simulator's two certificate authorities: one for its server certificate, one for those of the users.

namespace simulator {

// Contents of a certificate to be issued.
struct certificate_wish {
    std::string common_name{};
    std::int64_t not_before_offset_s = -60;  // both offsets are relative to now
    std::int64_t not_after_offset_s = 31'536'000;
    std::string usage{};      // value of extendedKeyUsage; empty: none
    std::string alt_names{};  // value of subjectAltName; empty: none
    bool authority = false;
};

// A certificate and its private key.
struct identity {
    openssl::certificate_ptr certificate{};
    openssl::key_ptr key{};
};

openssl::certificate_ptr sign(const certificate_wish& wish, EVP_PKEY* subject_key, const identity& issuer);

// notAfter, in milliseconds since 1970.
std::int64_t expires_ms(const X509& certificate);

identity make_authority(const std::string& common_name, const identity* issuer = nullptr);

// Loads `name`.pem and `name`.key from the directory, creating them if needed.
identity load_or_make_authority(const std::filesystem::path& directory, const std::string& name,
                                const std::string& common_name, const identity* issuer = nullptr);

// Kinds of server certificates: good | unknown-ca | other-host | expired.
identity make_server_identity(const std::string& kind, const identity& authority);

// The CA for user certificates: a root and the intermediate that signs.
struct user_authority {
    identity root{};
    identity issuer{};
};

void write_file(const std::filesystem::path& file, const std::string& text, bool secret = false);

}  // namespace simulator
