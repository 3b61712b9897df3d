#include "agent/io/tls.hpp"

#include <boost/asio/ssl/context.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <sys/stat.h>
#include <utility>

namespace io {

namespace ssl = boost::asio::ssl;

namespace {

// The reason on top of the queue, which is empty afterwards: a stale entry would blame the next call.
std::string drained_reason()
{
    const auto code = ::ERR_peek_error();
    ::ERR_clear_error();
    if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
    const char* reason = ::ERR_reason_error_string(code);
    return reason ? reason : "no certificate in it";
}

policy::failure unreadable(const char* key, const std::string& file)
{
    return {policy::errc::untrusted, std::string(key) + " " + file + " cannot be used: " + drained_reason(),
            policy::retry::after_change, std::nullopt};
}

std::string stamp(const std::optional<std::string>& file)
{
    struct stat facts {};
    if (!file || ::stat(file->c_str(), &facts) != 0) return "-";
    return std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino) + ":" +
           std::to_string(facts.st_size) + ":" + std::to_string(facts.st_mtim.tv_sec) + "." +
           std::to_string(facts.st_mtim.tv_nsec);
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

    ::ERR_clear_error();
    auto made = std::make_shared<ssl::context>(ssl::context::tls_client);
    SSL_CTX* native = made->native_handle();
    ::SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
    ::SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
    constexpr std::array<unsigned char, 9> http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};  // RFC 7301
    ::SSL_CTX_set_alpn_protos(native, http_1_1.data(), http_1_1.size());

    if (!ca_file_) {
        ::SSL_CTX_set_default_verify_paths(native);
    } else if (::SSL_CTX_load_verify_file(native, ca_file_->c_str()) != 1) {
        return unreadable("network.ca_file", *ca_file_);
    }
    if (crl_file_) {
        auto* store = ::SSL_CTX_get_cert_store(native);
        auto* lookup = ::X509_STORE_add_lookup(store, ::X509_LOOKUP_file());
        if (!lookup || ::X509_load_crl_file(lookup, crl_file_->c_str(), X509_FILETYPE_PEM) < 1)
            return unreadable("network.crl_file", *crl_file_);
        ::X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    }
    ::ERR_clear_error();
    context_ = std::move(made);
    stamp_ = std::move(now);
    return context_;
}

}  // namespace io
