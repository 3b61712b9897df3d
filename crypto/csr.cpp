#include "crypto/csr.hpp"

#include "crypto/openssl.hpp"
#include "policy/limits.hpp"

#include <openssl/pem.h>

#include <utility>

namespace crypto {
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
                               .context = "a common name has 1 to 64 characters, this one has " +
                                          std::to_string(common_name.size()),
                               .kind = policy::retry::after_change};

    const openssl::error_queue errors;
    const openssl::x509_req request(X509_REQ_new());
    const EVP_MD* digest = key.type() == policy::key_type::ed25519 ? nullptr : EVP_sha256();
    if (!request || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
        !set_subject(request.get(), common_name) || !ask_for_client_use(request.get()) ||
        X509_REQ_set_pubkey(request.get(), key.native()) != 1 ||
        X509_REQ_sign(request.get(), key.native(), digest) <= 0)
        return errors.failure("cannot make the signing request");

    csr made{.der = openssl::to_der<i2d_X509_REQ>(request.get()), .pem = {}};
    if (made.der.empty()) return errors.failure("cannot encode the signing request");
    made.pem = openssl::to_pem(PEM_STRING_X509_REQ, made.der);
    return made;
}

}  // namespace crypto
