#include "csr.hpp"

#include "http.hpp"
#include "text.hpp"

#include <openssl/err.h>

namespace simulator {

namespace {

constexpr std::size_t common_name_limit = 64;

struct parsed {
    openssl::request_ptr csr;
    bool pem;
};

parsed parse(std::string_view posted)
{
    if (posted.starts_with("-----BEGIN"))
        throw bad_request{"csr: not base64: the PEM text was sent as it is"};
    const auto bytes = base64_decode(posted);
    if (!bytes) throw bad_request{"csr: not base64"};
    const auto source = openssl::read_only(*bytes);
    const bool pem = bytes->find("-----BEGIN") != std::string::npos;
    openssl::request_ptr csr{pem ? PEM_read_bio_X509_REQ(source.get(), nullptr, nullptr, nullptr)
                                 : d2i_X509_REQ_bio(source.get(), nullptr)};
    ERR_clear_error();
    if (!csr) throw bad_request{"csr: neither PEM nor DER of a certificate signing request"};
    return {.csr = std::move(csr), .pem = pem};
}

std::string common_name_of(X509_REQ* csr)
{
    X509_NAME* subject = X509_REQ_get_subject_name(csr);
    if (X509_NAME_entry_count(subject) != 1)
        throw bad_request{"csr: the subject must hold the common name only"};
    X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, 0);
    if (OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry)) != NID_commonName)
        throw bad_request{"csr: the subject must hold the common name only"};
    const ASN1_STRING* text = X509_NAME_ENTRY_get_data(entry);
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
            static_cast<std::size_t>(ASN1_STRING_length(text))};
}

void check_common_name(const std::string& name, std::string_view prefix)
{
    if (name.size() > common_name_limit)
        throw bad_request{"csr: the common name is longer than 64 characters"};
    const std::string_view all = name;
    if (!all.starts_with(prefix) || all.size() == prefix.size())
        throw bad_request{"csr: the common name must start with " + std::string{prefix}};
    const auto rest = all.substr(prefix.size());
    if (rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string_view::npos ||
        rest.back() == '-')
        throw bad_request{"csr: the free text of the common name must match [a-z0-9-]*[a-z0-9]"};
}

bool is_client_auth_alone(X509_EXTENSION* extension)
{
    auto* usages = static_cast<EXTENDED_KEY_USAGE*>(X509V3_EXT_d2i(extension));
    if (usages == nullptr) return false;
    const bool alone =
        sk_ASN1_OBJECT_num(usages) == 1 && OBJ_obj2nid(sk_ASN1_OBJECT_value(usages, 0)) == NID_client_auth;
    sk_ASN1_OBJECT_pop_free(usages, ASN1_OBJECT_free);
    return alone;
}

std::vector<std::string> check_extensions(X509_REQ* csr)
{
    std::vector<std::string> oddities;
    bool asks_for_usage = false;
    STACK_OF(X509_EXTENSION)* extensions = X509_REQ_get_extensions(csr);
    bool refused = false;
    for (int i = 0; i < sk_X509_EXTENSION_num(extensions); ++i) {
        X509_EXTENSION* each = sk_X509_EXTENSION_value(extensions, i);
        const int kind = OBJ_obj2nid(X509_EXTENSION_get_object(each));
        if (kind == NID_ext_key_usage) {
            asks_for_usage = true;
            refused = refused || !is_client_auth_alone(each);
        } else {
            oddities.push_back(std::string{"csr: asks for the extension "} + OBJ_nid2sn(kind));
        }
    }
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    if (refused) throw bad_request{"csr: the extended key usage must be clientAuth alone"};
    if (!asks_for_usage) oddities.emplace_back("csr: asks for no extended key usage");
    return oddities;
}

}  // namespace

signing_request read_signing_request(std::string_view posted, std::string_view prefix)
{
    const auto [csr, pem] = parse(posted);
    openssl::key_ptr public_key{X509_REQ_get_pubkey(csr.get())};
    if (!public_key || X509_REQ_verify(csr.get(), public_key.get()) != 1) {
        ERR_clear_error();
        throw bad_request{"csr: the signature does not hold"};
    }
    signing_request read;
    read.encoding = pem ? "pem" : "der";
    read.common_name = common_name_of(csr.get());
    check_common_name(read.common_name, prefix);
    read.oddities = check_extensions(csr.get());
    read.public_key_sha256 = sha256_hex(openssl::public_key_der(public_key.get()));
    read.public_key = std::move(public_key);
    return read;
}

}  // namespace simulator
