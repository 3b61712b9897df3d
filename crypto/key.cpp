#include "crypto/key.hpp"

#include "crypto/digest.hpp"
#include "crypto/openssl.hpp"
#include "policy/limits.hpp"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <optional>
#include <utility>

namespace crypto {
namespace {

using policy::key_type;

EVP_PKEY* make(key_type type)
{
    switch (type) {
        case key_type::rsa_2048:
            return EVP_RSA_gen(2048);
        case key_type::rsa_3072:
            return EVP_RSA_gen(3072);
        case key_type::rsa_4096:
            return EVP_RSA_gen(4096);
        case key_type::ecdsa_p256:
            return EVP_EC_gen("P-256");
        case key_type::ecdsa_p384:
            return EVP_EC_gen("P-384");
        case key_type::ed25519:
            return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    }
    return nullptr;
}

std::optional<key_type> rsa_of(int bits)
{
    switch (bits) {
        case 2048:
            return key_type::rsa_2048;
        case 3072:
            return key_type::rsa_3072;
        case 4096:
            return key_type::rsa_4096;
        default:
            return std::nullopt;
    }
}

std::optional<key_type> curve_of(const EVP_PKEY* key)
{
    char name[64] = {};
    if (EVP_PKEY_get_group_name(key, name, sizeof name, nullptr) != 1) return std::nullopt;
    if (std::string_view(name) == SN_X9_62_prime256v1) return key_type::ecdsa_p256;
    if (std::string_view(name) == SN_secp384r1) return key_type::ecdsa_p384;
    return std::nullopt;
}

std::optional<key_type> type_of(const EVP_PKEY* key)
{
    if (EVP_PKEY_is_a(key, "RSA")) return rsa_of(EVP_PKEY_get_bits(key));
    if (EVP_PKEY_is_a(key, "EC")) return curve_of(key);
    if (EVP_PKEY_is_a(key, "ED25519")) return key_type::ed25519;
    return std::nullopt;
}

// Otherwise OpenSSL would prompt for an encrypted key's password on the terminal.
int no_password(char*, int, int, void*)
{
    return -1;
}

int give_password(char* buffer, int size, int, void* password)
{
    const auto text = static_cast<const secret*>(password)->view();
    if (text.size() > static_cast<std::size_t>(size)) return -1;
    text.copy(buffer, text.size());
    return static_cast<int>(text.size());
}

}  // namespace

void private_key::release::operator()(evp_pkey_st* key) const noexcept
{
    EVP_PKEY_free(key);
}

private_key::private_key(handle key, key_type type, std::string fingerprint)
    : key_(std::move(key)), type_(type), fingerprint_(std::move(fingerprint))
{
}

policy::result<private_key> private_key::own(handle key)
{
    const openssl::error_queue errors;
    const auto type = type_of(key.get());
    if (!type) return errors.failure("the private key has an unsupported type");

    const std::string spki = openssl::to_der<i2d_PUBKEY>(key.get());
    if (spki.empty()) return errors.failure("cannot encode the public key");
    return private_key(std::move(key), *type, sha256_hex(spki));
}

policy::result<private_key> private_key::generate(key_type type)
{
    const openssl::error_queue errors;
    handle key(make(type));
    if (!key) return errors.failure(std::string("cannot generate a key of type ") + policy::word_of(type));
    return own(std::move(key));
}

policy::result<private_key> private_key::from_pem(std::string_view text)
{
    const openssl::error_queue errors;
    const openssl::bio input = openssl::reader(text);
    handle key(PEM_read_bio_PrivateKey(input.get(), nullptr, no_password, nullptr));
    if (!key) return errors.failure("the private key cannot be read (unencrypted PEM is expected)");
    return own(std::move(key));
}

policy::result<private_key> private_key::from_encrypted_pem(std::string_view text, const secret& password)
{
    const openssl::error_queue errors;
    const openssl::bio input = openssl::reader(text);
    secret given(password.view());
    handle key(PEM_read_bio_PrivateKey(input.get(), nullptr, give_password, &given));
    if (!key) return errors.failure("the private key cannot be decrypted; check the password");
    return own(std::move(key));
}

bool is_encrypted(std::string_view pem)
{
    return pem.find("-----BEGIN ENCRYPTED PRIVATE KEY-----") != std::string_view::npos ||
           pem.find("Proc-Type: 4,ENCRYPTED") != std::string_view::npos;
}

policy::result<secret> private_key::to_pem() const
{
    const openssl::error_queue errors;
    const openssl::bio memory(BIO_new(BIO_s_mem()));
    if (PEM_write_bio_PKCS8PrivateKey(memory.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
        return errors.failure("cannot encode the private key");
    return secret(openssl::written(memory));
}

namespace {

bool set_subject(X509_REQ* request, std::string_view common_name)
{
    // X509_REQ_get_subject_name is the request's own name, not a copy
    return X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(request), NID_commonName, V_ASN1_UTF8STRING,
                                      reinterpret_cast<const unsigned char*>(common_name.data()),
                                      static_cast<int>(common_name.size()), -1, 0) == 1;
}

bool ask_for_client_use(X509_REQ* request)
{
    const openssl::x509_extensions extensions(sk_X509_EXTENSION_new_null());
    openssl::x509_extension usage(X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, "clientAuth"));
    if (!extensions || !usage) return false;
    if (sk_X509_EXTENSION_push(extensions.get(), usage.get()) == 0) return false;
    usage.release();  // the list owns it now
    return X509_REQ_add_extensions(request, extensions.get()) == 1;
}

}  // namespace

policy::result<csr> make_csr(const private_key& key, std::string_view common_name)
{
    if (common_name.empty() || common_name.size() > policy::limits::common_name_length)
        return policy::failure{.code = policy::errc::crypto,
                               .context = "a common name has 1 to 64 characters; this one has " +
                                          std::to_string(common_name.size()),
                               .kind = policy::retry::after_change};

    const openssl::error_queue errors;
    const openssl::x509_req request(X509_REQ_new());
    const EVP_MD* digest = key.type() == policy::key_type::ed25519 ? nullptr : EVP_sha256();
    if (!request || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
        !set_subject(request.get(), common_name) || !ask_for_client_use(request.get()) ||
        X509_REQ_set_pubkey(request.get(), key.native()) != 1 ||
        X509_REQ_sign(request.get(), key.native(), digest) <= 0)
        return errors.failure("cannot create the signing request");

    csr made{.der = openssl::to_der<i2d_X509_REQ>(request.get()), .pem = {}};
    if (made.der.empty()) return errors.failure("cannot encode the signing request");
    made.pem = openssl::to_pem(PEM_STRING_X509_REQ, made.der);
    return made;
}

}  // namespace crypto
