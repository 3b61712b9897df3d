#include "ca.hpp"

#include "text.hpp"

#include <openssl/rand.h>

#include <array>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace simulator {

namespace {

constexpr std::int64_t ten_years_s = 315'360'000;
constexpr std::int64_t day_s = 86'400;

void add_extension(X509* certificate, const X509* issuer, int kind, const char* value)
{
    X509V3_CTX context{};
    X509V3_set_ctx(&context, const_cast<X509*>(issuer), certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
    openssl::must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value);
    X509_EXTENSION_free(extension);
}

void set_serial(X509* certificate)
{
    std::array<unsigned char, 16> bytes{};
    openssl::must(RAND_bytes(bytes.data(), bytes.size()) == 1, "serial number");
    bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive and of constant length
    BIGNUM* number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
}

std::string read_file(const std::filesystem::path& file)
{
    std::ifstream in{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

openssl::certificate_ptr sign_by(const certificate_wish& wish, EVP_PKEY* subject_key, X509* issuer,
                                 EVP_PKEY* issuer_key)
{
    openssl::certificate_ptr made{X509_new()};
    X509* out = made.get();
    X509_set_version(out, X509_VERSION_3);
    set_serial(out);
    X509_gmtime_adj(X509_getm_notBefore(out), wish.not_before_offset_s);
    X509_gmtime_adj(X509_getm_notAfter(out), wish.not_after_offset_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(out), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wish.common_name.c_str()), -1, -1, 0);
    const X509* above = issuer == nullptr ? out : issuer;
    X509_set_issuer_name(out, X509_get_subject_name(above));
    X509_set_pubkey(out, subject_key);
    add_extension(out, above, NID_basic_constraints,
                  wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    add_extension(out, above, NID_key_usage,
                  wish.authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
    add_extension(out, above, NID_subject_key_identifier, "hash");
    add_extension(out, above, NID_authority_key_identifier, "keyid");
    if (!wish.usage.empty()) add_extension(out, above, NID_ext_key_usage, wish.usage.c_str());
    if (!wish.alt_names.empty()) add_extension(out, above, NID_subject_alt_name, wish.alt_names.c_str());
    openssl::must(X509_sign(out, issuer_key, EVP_sha256()) > 0, "sign");
    return made;
}

}  // namespace

openssl::certificate_ptr sign(const certificate_wish& wish, EVP_PKEY* subject_key, const identity& issuer)
{
    return sign_by(wish, subject_key, issuer.certificate.get(), issuer.key.get());
}

std::int64_t expires_ms(const X509& certificate)
{
    std::tm end{};
    openssl::must(ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) == 1, "read notAfter");
    return timegm(&end) * std::int64_t{1000};
}

identity make_authority(const std::string& common_name, const identity* issuer)
{
    auto key = openssl::make_p256_key();
    const certificate_wish wish{.common_name = common_name,
                                .not_before_offset_s = -day_s,
                                .not_after_offset_s = ten_years_s,
                                .authority = true};
    auto certificate =
        issuer == nullptr ? sign_by(wish, key.get(), nullptr, key.get()) : sign(wish, key.get(), *issuer);
    return {std::move(certificate), std::move(key)};
}

identity load_or_make_authority(const std::filesystem::path& directory, const std::string& name,
                                const std::string& common_name, const identity* issuer)
{
    const auto certificate_file = directory / (name + ".pem");
    const auto key_file = directory / (name + ".key");
    if (std::filesystem::exists(certificate_file) && std::filesystem::exists(key_file)) {
        const std::string certificate_pem = read_file(certificate_file);
        const std::string key_pem = read_file(key_file);
        identity loaded{openssl::certificate_ptr{PEM_read_bio_X509(openssl::read_only(certificate_pem).get(),
                                                                   nullptr, nullptr, nullptr)},
                        openssl::key_ptr{PEM_read_bio_PrivateKey(openssl::read_only(key_pem).get(), nullptr,
                                                                 nullptr, nullptr)}};
        openssl::must(loaded.certificate && loaded.key, "read the authority's files");
        return loaded;
    }
    identity made = make_authority(common_name, issuer);
    write_file(key_file, openssl::to_pem(made.key.get()), true);
    write_file(certificate_file, openssl::to_pem(made.certificate.get()));
    return made;
}

identity make_server_identity(const std::string& kind, const identity& authority)
{
    certificate_wish wish{.common_name = "platform-simulator",
                          .usage = "serverAuth",
                          .alt_names = "DNS:localhost,IP:127.0.0.1,IP:::1"};
    if (kind == "other-host") wish.alt_names = "DNS:elsewhere.example.com";
    if (kind == "expired") {
        wish.not_before_offset_s = -30 * day_s;
        wish.not_after_offset_s = -day_s;
    }
    auto key = openssl::make_p256_key();
    // The unknown CA has the same name as the real one: only the signature differs.
    auto certificate = kind == "unknown-ca" ? sign(wish, key.get(), make_authority("Simulator Server CA"))
                                            : sign(wish, key.get(), authority);
    return {std::move(certificate), std::move(key)};
}

void write_file(const std::filesystem::path& file, const std::string& text, bool secret)
{
    auto temporary = file;
    temporary += ".new";
    const int descriptor =
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, secret ? 0600 : 0644);
    const bool written = descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == std::ssize(text);
    if (descriptor >= 0) ::close(descriptor);
    if (!written) throw std::runtime_error{"cannot write " + temporary.string()};
    std::filesystem::rename(temporary, file);
}

}  // namespace simulator
