#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

// Owning pointers to OpenSSL objects, and shared conversions.

namespace simulator::openssl {

template <auto release>
struct releaser {
    template <class T>
    void operator()(T* object) const
    {
        release(object);
    }
};

using bio_ptr = std::unique_ptr<BIO, releaser<BIO_free_all>>;
using key_ptr = std::unique_ptr<EVP_PKEY, releaser<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, releaser<X509_free>>;
using request_ptr = std::unique_ptr<X509_REQ, releaser<X509_REQ_free>>;

// Throws if a call that cannot fail in a working installation fails.
inline void must(bool worked, const char* what)
{
    if (!worked) throw std::runtime_error{std::string{"OpenSSL: "} + what};
}

inline bio_ptr read_only(std::string_view bytes)
{
    return bio_ptr{BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size()))};
}

inline std::string contents(BIO* memory)
{
    char* data = nullptr;
    const long length = BIO_get_mem_data(memory, &data);
    return {data, static_cast<std::size_t>(length)};
}

std::string to_pem(X509* certificate);
std::string to_pem(EVP_PKEY* key);  // PKCS#8, unencrypted
std::string to_der(X509* certificate);
certificate_ptr certificate_from_der(std::string_view der);

// DER of the SubjectPublicKeyInfo.
std::string public_key_der(EVP_PKEY* key);

key_ptr make_p256_key();

}  // namespace simulator::openssl
