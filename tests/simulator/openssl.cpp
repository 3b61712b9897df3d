#include "openssl.hpp"

namespace simulator::openssl {

std::string to_pem(X509* certificate)
{
    const bio_ptr memory{BIO_new(BIO_s_mem())};
    must(PEM_write_bio_X509(memory.get(), certificate) == 1, "write certificate");
    return contents(memory.get());
}

std::string to_pem(EVP_PKEY* key)
{
    const bio_ptr memory{BIO_new(BIO_s_mem())};
    must(PEM_write_bio_PKCS8PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
         "write key");
    return contents(memory.get());
}

std::string to_der(X509* certificate)
{
    const bio_ptr memory{BIO_new(BIO_s_mem())};
    must(i2d_X509_bio(memory.get(), certificate) == 1, "encode certificate");
    return contents(memory.get());
}

certificate_ptr certificate_from_der(std::string_view der)
{
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    return certificate_ptr{d2i_X509(nullptr, &at, static_cast<long>(der.size()))};
}

std::string public_key_der(EVP_PKEY* key)
{
    const bio_ptr memory{BIO_new(BIO_s_mem())};
    must(i2d_PUBKEY_bio(memory.get(), key) == 1, "encode public key");
    return contents(memory.get());
}

key_ptr make_p256_key()
{
    key_ptr made{EVP_EC_gen("P-256")};
    must(made != nullptr, "make key");
    return made;
}

}  // namespace simulator::openssl
