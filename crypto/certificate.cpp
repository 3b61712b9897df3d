#include "crypto/certificate.hpp"

#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "crypto/openssl.hpp"
#include "policy/limits.hpp"
#include "policy/result.hpp"

#include <openssl/pem.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crypto {

namespace {

// --- From the platform's text to the DER of each certificate

constexpr std::size_t certificate_text_bytes = 512 << 10;  // far larger than any real answer
constexpr std::string_view begin_mark = "-----BEGIN ";
constexpr std::string_view end_mark = "-----END ";
constexpr std::string_view dashes = "-----";
constexpr int wrappings = 3;  // at most base64 of base64 of PEM

// A retry of the same call cannot help.
policy::failure unusable(std::string what)
{
    return {.code = policy::errc::unusable_certificate,
            .context = std::move(what),
            .kind = policy::retry::after_change};
}

// Replaces the escapes \n, \r and \/ that JSON inside JSON leaves behind.
std::string without_escapes(std::string_view text)
{
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char next = at + 1 < text.size() ? text[at + 1] : '\0';
        const bool escape = text[at] == '\\' && (next == 'n' || next == 'r' || next == '/' || next == '\\');
        if (!escape) {
            plain += text[at];
        } else if (next != '\\') {  // after two backslashes, the second one starts the escape
            plain += next == '/' ? '/' : '\n';
            ++at;
        }
    }
    return plain;
}

bool holds_certificate(std::string_view label)
{
    return label == "CERTIFICATE" || label == "X509 CERTIFICATE";
}

// All certificates in PEM blocks; other kinds of block are skipped.
policy::result<std::vector<std::string>> from_pem(std::string_view text)
{
    std::vector<std::string> pieces;
    std::string others;
    for (auto at = text.find(begin_mark); at != std::string_view::npos; at = text.find(begin_mark, at)) {
        at += begin_mark.size();
        const auto label_end = text.find(dashes, at);
        if (label_end == std::string_view::npos) return unusable("the certificate's text is truncated");
        const std::string_view label = text.substr(at, label_end - at);
        at = label_end + dashes.size();
        const auto end = text.find(end_mark, at);
        if (end == std::string_view::npos) return unusable("the certificate's text is truncated");
        if (holds_certificate(label)) {
            auto der = base64_decode(text.substr(at, end - at));
            if (!der) return unusable("the certificate's PEM text is damaged (not base64)");
            pieces.push_back(std::move(*der));
        } else if (label == "PKCS7" || label == "CMS") {
            return unusable("a PKCS#7 bundle was sent where a certificate was expected (PEM or DER)");
        } else if (others.empty()) {
            others = label.substr(0, 40);
        }
        at = end;
    }
    if (pieces.empty()) return unusable("no certificate in the PEM text, but \"" + others + "\"");
    return pieces;
}

// Concatenated base64 parts, each with its own padding.
std::optional<std::string> from_base64(std::string_view text)
{
    std::string bytes;
    while (!text.empty()) {
        const auto padding = text.find('=');
        const auto end =
            padding == std::string_view::npos ? padding : text.find_first_not_of("= \r\n\t", padding);
        const auto part = base64_decode(text.substr(0, end));
        if (!part) return std::nullopt;
        bytes += *part;
        text.remove_prefix(end == std::string_view::npos ? text.size() : end);
    }
    return bytes;
}

// A SEQUENCE with a long-form length: base64 text cannot start with these bytes.
bool begins_as_der(std::string_view bytes)
{
    return bytes.size() > 2 && bytes[0] == '\x30' && (static_cast<unsigned char>(bytes[1]) & 0x80) != 0;
}

policy::result<std::vector<std::string>> unwrap(std::string text, int depth)
{
    if (begins_as_der(text)) return std::vector<std::string>{std::move(text)};

    std::string plain = without_escapes(text);
    if (plain.find(begin_mark) != std::string::npos) return from_pem(plain);
    if (plain.find_first_not_of(" \r\n\t") == std::string::npos) return unusable("the certificate is empty");
    auto bytes = depth > 0 ? from_base64(plain) : std::nullopt;
    if (!bytes) return unusable("the certificate is neither PEM nor base64 of PEM or DER");
    return unwrap(std::move(*bytes), depth - 1);
}

// Undoes escapes, PEM and base64 in any order.
// A piece may hold several concatenated certificates, or none at all.
policy::result<std::vector<std::string>> unwrap_certificates(std::string_view text)
{
    if (text.size() > certificate_text_bytes)
        return unusable("the certificate is larger than " + std::to_string(certificate_text_bytes) +
                        " bytes");
    return unwrap(std::string(text), wrappings);
}

// --- From DER to facts

std::optional<policy::instant> instant_of(const ASN1_TIME* time)
{
    std::tm parts = {};
    if (ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
    return policy::instant(policy::duration(timegm(&parts)));
}

std::string common_name(const X509* x)
{
    const X509_NAME* const subject = X509_get_subject_name(x);
    int last = -1;
    for (int at; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, last)) >= 0;)
        last = at;
    if (last < 0) return {};
    const openssl::bio memory(BIO_new(BIO_s_mem()));
    ASN1_STRING_print_ex(memory.get(), X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last)),
                         ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT);
    return std::string(openssl::written(memory));
}

std::string issuer_line(const X509* x)
{
    const openssl::bio memory(BIO_new(BIO_s_mem()));
    X509_NAME_print_ex(memory.get(), X509_get_issuer_name(x), 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
    return std::string(openssl::written(memory));
}

std::string serial_hex(const X509* x)
{
    const openssl::bio memory(BIO_new(BIO_s_mem()));
    i2a_ASN1_INTEGER(memory.get(), X509_get0_serialNumber(x));
    std::string text(openssl::written(memory));
    std::erase_if(text, [](char c) { return c == '\\' || c == '\n'; });  // in serials longer than 35 bytes
    return text;
}

// RFC 5280 section 4.2.1.12. An unreadable extension allows nothing.
std::optional<bool> allows_client_auth(const X509* x)
{
    int found = 0;
    const openssl::extended_key_usage usage(
        static_cast<EXTENDED_KEY_USAGE*>(X509_get_ext_d2i(x, NID_ext_key_usage, &found, nullptr)));
    if (!usage) return found == -1 ? std::nullopt : std::optional(false);
    for (int at = 0; at < sk_ASN1_OBJECT_num(usage.get()); ++at) {
        const int purpose = OBJ_obj2nid(sk_ASN1_OBJECT_value(usage.get(), at));
        if (purpose == NID_client_auth || purpose == NID_anyExtendedKeyUsage) return true;
    }
    return false;
}

policy::result<certificate> describe(const X509* x, std::string_view der)
{
    const auto not_before = instant_of(X509_get0_notBefore(x));
    const auto not_after = instant_of(X509_get0_notAfter(x));
    if (!not_before || !not_after) return unusable("the certificate's dates cannot be read");
    const std::string spki = openssl::to_der<i2d_X509_PUBKEY>(X509_get_X509_PUBKEY(x));
    if (spki.empty()) return unusable("the certificate's public key cannot be read");
    return certificate{.der = std::string(der),
                       .facts = {.subject_cn = common_name(x),
                                 .issuer = issuer_line(x),
                                 .serial_hex = serial_hex(x),
                                 .not_before = *not_before,
                                 .not_after = *not_after,
                                 .public_key_fingerprint = sha256_hex(spki),
                                 .sha256 = sha256_hex(der),
                                 .client_auth = allows_client_auth(x)}};
}

openssl::x509 parse(std::string_view der)
{
    auto* at = reinterpret_cast<const unsigned char*>(der.data());
    return openssl::x509(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
}

// RFC 2315: a ContentInfo starts with its type, 1.2.840.113549.1.7.x, right after the first length.
bool is_pkcs7(std::string_view der)
{
    return der.substr(0, 24).find("\x2a\x86\x48\x86\xf7\x0d\x01\x07") != std::string_view::npos;
}

// Appends every certificate in the DER bytes that is not yet in the list.
policy::result<void> read_der(std::string_view der, std::vector<certificate>& found)
{
    const openssl::error_queue errors;
    while (!der.empty()) {
        const auto* const begin = reinterpret_cast<const unsigned char*>(der.data());
        const auto* end = begin;
        const openssl::x509 x(d2i_X509(nullptr, &end, static_cast<long>(der.size())));
        if (!x && is_pkcs7(der))
            return unusable("a PKCS#7 bundle was sent where a certificate was expected (PEM or DER)");
        if (!x) return errors.failure("the certificate cannot be read", policy::errc::unusable_certificate);

        auto one = describe(x.get(), der.substr(0, static_cast<std::size_t>(end - begin)));
        if (!one) return one.error();
        if (std::find(found.begin(), found.end(), *one) == found.end()) found.push_back(std::move(*one));
        if (found.size() > policy::limits::chain_certificates)
            return unusable("more than " + std::to_string(policy::limits::chain_certificates) +
                            " certificates in one chain");
        der.remove_prefix(static_cast<std::size_t>(end - begin));
        der.remove_prefix(std::min(der.find_first_not_of(" \r\n\t"), der.size()));
    }
    return {};
}

}  // namespace

std::string certificate::pem() const
{
    return openssl::to_pem(PEM_STRING_X509, der);
}

policy::result<std::vector<certificate>> read_chain(std::string_view text)
{
    const auto pieces = unwrap_certificates(text);
    if (!pieces) return pieces.error();
    std::vector<certificate> found;
    for (const auto& piece : *pieces) {
        if (piece.empty()) return unusable("the certificate is empty");
        if (const auto read = read_der(piece, found); !read) return read.error();
    }
    return found;
}

policy::result<certificate_chain> order_chain(std::vector<certificate> certificates,
                                              std::string_view key_fingerprint)
{
    const openssl::error_queue errors;
    const auto leaf_end = std::stable_partition(
        certificates.begin(), certificates.end(),
        [&](const auto& one) { return one.facts.public_key_fingerprint == key_fingerprint; });
    const auto leaf = std::max_element(certificates.begin(), leaf_end, [](const auto& a, const auto& b) {
        return a.facts.not_after < b.facts.not_after;
    });
    if (leaf == leaf_end) return unusable("the certificate does not match our private key");

    certificate_chain chain{.leaf = std::move(*leaf), .rest = {}};
    std::vector<certificate> others(std::make_move_iterator(leaf_end),
                                    std::make_move_iterator(certificates.end()));
    openssl::x509 subject = parse(chain.leaf.der);
    while (subject) {
        openssl::x509 issuer;
        const auto next = std::find_if(others.begin(), others.end(), [&](const auto& one) {
            issuer = parse(one.der);
            return issuer && X509_check_issued(issuer.get(), subject.get()) == X509_V_OK;
        });
        if (next == others.end()) break;
        chain.rest.push_back(std::move(*next));
        others.erase(next);
        subject = std::move(issuer);
    }
    return chain;
}

verdict judge(const certificate& leaf, std::string_view key_fingerprint, policy::instant now) noexcept
{
    if (leaf.facts.public_key_fingerprint != key_fingerprint) return verdict::wrong_key;
    if (now > leaf.facts.not_after) return verdict::expired;
    if (now < leaf.facts.not_before) return verdict::not_yet_valid;
    if (leaf.facts.client_auth == false) return verdict::wrong_usage;
    return verdict::usable;
}

// --- PKCS#12

namespace {

constexpr int iterations = 10'000;  // the default of keytool 17
constexpr int salt_bytes = 16;
constexpr int without_mac = -1;

openssl::x509_list parse(const std::vector<certificate>& all)
{
    openssl::x509_list list(sk_X509_new_null());
    for (const auto& one : all) {
        openssl::x509 x = parse(one.der);
        if (!x || sk_X509_push(list.get(), x.get()) == 0) return nullptr;
        x.release();  // the list owns it now
    }
    return list;
}

policy::failure unsuitable(std::string what)
{
    return {.code = policy::errc::crypto, .context = std::move(what), .kind = policy::retry::after_change};
}

}  // namespace

policy::result<secret> make_pkcs12(const private_key& key, const certificate_chain& chain,
                                   const std::string& friendly_name, const secret& password)
{
    if (password.empty() || password.view().find('\0') != std::string_view::npos)
        return unsuitable("the password of the PKCS#12 file is empty or holds a NUL byte");
    if (chain.leaf.facts.public_key_fingerprint != key.fingerprint())
        return unsuitable("the certificate for the PKCS#12 file does not match the private key");

    const openssl::error_queue errors;
    const openssl::x509 leaf = parse(chain.leaf.der);
    const openssl::x509_list rest = parse(chain.rest);
    if (!leaf || !rest) return errors.failure("cannot read the certificates for the PKCS#12 file");

    // the MAC is set separately, because the digest that PKCS12_create uses depends on the OpenSSL version
    const openssl::pkcs12 file(PKCS12_create(password.c_str(), friendly_name.c_str(), key.native(),
                                             leaf.get(), rest.get(), NID_aes_256_cbc, NID_aes_256_cbc,
                                             iterations, without_mac, 0));
    if (!file ||
        PKCS12_set_mac(file.get(), password.c_str(), -1, nullptr, salt_bytes, iterations, EVP_sha256()) != 1)
        return errors.failure("cannot create the PKCS#12 file");
    std::string der = openssl::to_der<i2d_PKCS12>(file.get());
    if (der.empty()) return errors.failure("cannot encode the PKCS#12 file");
    return secret(std::move(der));
}

}  // namespace crypto
