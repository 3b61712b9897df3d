#include "agent/io/tls.hpp"

#include "agent/io/url.hpp"
#include "policy/dates.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/asn1.h>
#include <openssl/conf.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace io {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using policy::errc;
using policy::failure;
using policy::retry;

namespace {

constexpr int security_level = 2;  // 112 bits: RSA-2048 and up, no SHA-1 signatures

// The reason on top of the error queue, which is then emptied so that no later call is blamed for it.
std::string drained_reason()
{
    const auto code = ::ERR_peek_error();
    ::ERR_clear_error();
    if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
    const char* reason = ::ERR_reason_error_string(code);
    return reason ? reason : "it contains no certificate";
}

policy::failure unreadable(const char* key, const std::string& file)
{
    return {policy::errc::untrusted, std::string(key) + " " + file + " cannot be used: " + drained_reason(),
            policy::retry::after_change, std::nullopt};
}

std::string date_of(const ASN1_TIME* time)
{
    std::tm parts{};
    if (!time || ::ASN1_TIME_to_tm(time, &parts) != 1) return "an unreadable date";
    return policy::format_utc(policy::instant(policy::duration(::timegm(&parts))));
}

// The first few names, as " (it names a.example.com, b.example.com)".
std::string names_of(const X509* certificate)
{
    auto* names =
        static_cast<GENERAL_NAMES*>(::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    std::string list;
    int shown = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && shown < 3; ++i) {
        const auto* name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS) continue;
        const auto* text = ::ASN1_STRING_get0_data(name->d.dNSName);
        const auto length = static_cast<std::size_t>(::ASN1_STRING_length(name->d.dNSName));
        list += (shown++ == 0 ? "" : ", ") + std::string(reinterpret_cast<const char*>(text), length);
    }
    ::GENERAL_NAMES_free(names);
    return list.empty() ? "" : " (it names " + list + ")";
}

std::string stamp(const std::optional<std::string>& file)
{
    struct stat facts {};
    if (!file || ::stat(file->c_str(), &facts) != 0) return "-";
    return std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino) + ":" +
           std::to_string(facts.st_size) + ":" + std::to_string(facts.st_mtim.tv_sec) + "." +
           std::to_string(facts.st_mtim.tv_nsec);
}

// OpenSSL reads the system's TLS settings from the directory it was built for; on Fedora and RHEL they may be
// elsewhere. Settings that this OpenSSL does not know are ignored. $OPENSSL_CONF overrides both,
// openssl-env(7).
bool load_system_settings()
{
    constexpr const char* fedora = "/etc/pki/tls/openssl.cnf";
    const auto standard = std::string(::X509_get_default_cert_area()) + "/openssl.cnf";
    ::OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, nullptr);
    if (std::getenv("OPENSSL_CONF") || ::access(standard.c_str(), R_OK) == 0) return true;
    return ::CONF_modules_load_file(fedora, nullptr,
                                    CONF_MFLAGS_DEFAULT_SECTION | CONF_MFLAGS_IGNORE_MISSING_FILE |
                                        CONF_MFLAGS_IGNORE_RETURN_CODES) > 0;
}

// OpenSSL's default locations or, where they are empty, those of distributions that use others: one program
// runs on all of them. $SSL_CERT_FILE and $SSL_CERT_DIR override both, openssl-env(7).
void trust_system(SSL_CTX* context)
{
    constexpr std::array bundles{"/etc/pki/tls/certs/ca-bundle.crt",                   // RHEL up to 9
                                 "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
                                 "/etc/ssl/ca-bundle.pem"};                            // SUSE
    ::SSL_CTX_set_default_verify_paths(context);
    if (std::getenv(::X509_get_default_cert_file_env()) || std::getenv(::X509_get_default_cert_dir_env()) ||
        ::access(::X509_get_default_cert_file(), R_OK) == 0)
        return;
    for (const char* bundle : bundles)
        if (::access(bundle, R_OK) == 0 && ::SSL_CTX_load_verify_file(context, bundle) == 1) return;
}

}  // namespace

tls_trust::tls_trust(std::optional<std::string> ca_file, std::optional<std::string> crl_file)
    : ca_file_(std::move(ca_file)), crl_file_(std::move(crl_file))
{
}

std::string tls_trust::stamp_of_files() const
{
    return stamp(ca_file_) + " " + stamp(crl_file_);
}

policy::result<std::shared_ptr<ssl::context>> tls_trust::context()
{
    auto now = stamp_of_files();
    if (context_ && now == stamp_) return context_;

    [[maybe_unused]] static const bool loaded = load_system_settings();
    ::ERR_clear_error();
    auto made = std::make_shared<ssl::context>(ssl::context::tls_client);
    SSL_CTX* native = made->native_handle();
    // Set explicitly, so that OPENSSL_CONF cannot weaken it.
    ::SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
    ::SSL_CTX_set_max_proto_version(native, 0);
    ::SSL_CTX_set_security_level(native, std::max(::SSL_CTX_get_security_level(native), security_level));
    ::SSL_CTX_clear_options(native, SSL_OP_LEGACY_SERVER_CONNECT | SSL_OP_ALLOW_UNSAFE_LEGACY_RENEGOTIATION);
    ::SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    ::SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
    constexpr std::array<unsigned char, 9> http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};  // RFC 7301
    ::SSL_CTX_set_alpn_protos(native, http_1_1.data(), http_1_1.size());

    if (!ca_file_) {
        trust_system(native);
    } else if (::SSL_CTX_load_verify_file(native, ca_file_->c_str()) != 1) {
        return unreadable("network.ca_file", *ca_file_);
    }
    if (crl_file_) {
        auto* store = ::SSL_CTX_get_cert_store(native);
        auto* lookup = ::X509_STORE_add_lookup(store, ::X509_LOOKUP_file());
        if (!lookup || ::X509_load_crl_file(lookup, crl_file_->c_str(), X509_FILETYPE_PEM) < 1)
            return unreadable("network.crl_file", *crl_file_);
        ::X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    }
    ::ERR_clear_error();
    context_ = std::move(made);
    stamp_ = std::move(now);
    return context_;
}

std::string why_refused(X509_STORE_CTX& check, const std::string& host)
{
    const int code = ::X509_STORE_CTX_get_error(&check);
    const auto* certificate = ::X509_STORE_CTX_get_current_cert(&check);
    const std::string whose = ::X509_STORE_CTX_get_error_depth(&check) == 0
                                  ? "the server's certificate "
                                  : "a certificate in the server's chain ";
    const std::string reason = std::string(" (") + ::X509_verify_cert_error_string(code) + ")";
    switch (code) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return whose + "has expired on " + date_of(::X509_get0_notAfter(certificate)) +
                   "; check this host's clock, or ask the server's operator";
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return whose + "is not valid before " + date_of(::X509_get0_notBefore(certificate)) +
                   "; check this host's clock";
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the server's certificate is for another host than " + host + names_of(certificate) +
                   "; check the address and which server answers there";
        case X509_V_ERR_CERT_REVOKED:
            return whose + "has been revoked; ask the server's operator";
        case X509_V_ERR_UNABLE_TO_GET_CRL:
        case X509_V_ERR_CRL_HAS_EXPIRED:
        case X509_V_ERR_CRL_NOT_YET_VALID:
        case X509_V_ERR_CRL_SIGNATURE_FAILURE:
            return "the revocation status of the server's certificate is unknown" + reason +
                   "; renew network.crl_file";
        default:
            return whose + "is not trusted" + reason + "; check network.ca_file";
    }
}

policy::result<void> expect_server(SSL* ssl, const std::string& host)
{
    auto* parameters = ::SSL_get0_param(ssl);
    bool set = true;
    if (is_ip_literal(host)) {
        set = ::X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) == 1;
    } else {
        const auto name = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
        ::X509_VERIFY_PARAM_set_hostflags(
            parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        set = ::X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size()) == 1 &&
              SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
    }
    if (set) return {};
    return failure{errc::config, host + " is not a valid host name", retry::after_change, std::nullopt};
}

failure handshake_failure(const boost::system::error_code& error)
{
    if (error == asio::error::eof || error == asio::error::connection_reset ||
        error == asio::error::broken_pipe || error == ssl::error::stream_truncated)
        return {errc::not_connected, "the server closed the connection during the TLS handshake",
                retry::later, std::nullopt};
    std::string why = "the TLS handshake failed (" + error.message() + ")";
    if (error.category() == asio::error::get_ssl_category()) {
        switch (ERR_GET_REASON(static_cast<unsigned long>(error.value()))) {
            case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
            case SSL_R_UNSUPPORTED_PROTOCOL:
                why = "the server offers neither TLS 1.2 nor TLS 1.3";
                break;
            case SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL:
                why = "the server does not offer HTTP/1.1 (TLS ALPN)";
                break;
            case SSL_R_WRONG_VERSION_NUMBER:
            case SSL_R_HTTP_REQUEST:
                why = "the server does not speak TLS on this port; check the address";
                break;
            default:
                break;
        }
    }
    return {errc::untrusted, std::move(why), retry::later, std::nullopt};
}

}  // namespace io
