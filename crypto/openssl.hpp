#pragma once

#include "policy/result.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

// Internal to this room: owning handles, and the only code that turns OpenSSL errors into failures.

namespace crypto::openssl {

template <auto function>
struct freed_by {
    template <class T>
    void operator()(T* object) const noexcept
    {
        function(object);
    }
};

inline void free_extensions(STACK_OF(X509_EXTENSION) * list) noexcept
{
    sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
}

inline void free_certificates(STACK_OF(X509) * list) noexcept
{
    sk_X509_pop_free(list, X509_free);
}

using bio = std::unique_ptr<BIO, freed_by<BIO_free_all>>;
using pkey = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using x509 = std::unique_ptr<X509, freed_by<X509_free>>;
using x509_req = std::unique_ptr<X509_REQ, freed_by<X509_REQ_free>>;
using x509_extension = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using x509_extensions = std::unique_ptr<STACK_OF(X509_EXTENSION), freed_by<free_extensions>>;
using x509_list = std::unique_ptr<STACK_OF(X509), freed_by<free_certificates>>;
using extended_key_usage = std::unique_ptr<EXTENDED_KEY_USAGE, freed_by<EXTENDED_KEY_USAGE_free>>;
using pkcs12 = std::unique_ptr<PKCS12, freed_by<PKCS12_free>>;

// Put first in every function that calls OpenSSL: it empties the thread's error queue before and after the
// call, so that no error is attributed to a later one (Asio reads the same queue).
class error_queue {
public:
    error_queue() noexcept;
    ~error_queue();
    error_queue(const error_queue&) = delete;
    error_queue& operator=(const error_queue&) = delete;

    // "what: OpenSSL's reasons"; empties the queue. OpenSSL names locations and formats, never contents.
    [[nodiscard]] policy::failure failure(std::string what, policy::errc = policy::errc::crypto) const;
};

// A BIO that reads these bytes, which must outlive it.
bio reader(std::string_view bytes);

// The bytes written to a memory BIO; valid during its lifetime. Memory BIOs wipe their buffer.
std::string_view written(const bio&);

// The DER of an object, made by its i2d function; empty on failure.
template <auto i2d, class T>
std::string to_der(const T* object)
{
    const int length = i2d(object, nullptr);
    if (length <= 0) return {};
    std::string der(static_cast<std::size_t>(length), '\0');
    auto* end = reinterpret_cast<unsigned char*>(der.data());
    return i2d(object, &end) == length ? der : std::string();
}

// The RFC 7468 text of these bytes, with a label such as "CERTIFICATE".
std::string to_pem(const char* label, std::string_view der);

}  // namespace crypto::openssl
