#include "agent/io/connection.hpp"

#include "agent/io/http_address.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <openssl/asn1.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <optional>

namespace io {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

std::string date_of(const ASN1_TIME* time)
{
    std::tm parts{};
    if (!time || ::ASN1_TIME_to_tm(time, &parts) != 1) return "an unreadable date";
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
    return text.data();
}

// " (it names a.example.com, b.example.com)", of the first few.
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

std::string trouble_with(X509_STORE_CTX& check, const std::string& host)
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
                   "; check this host's clock, else ask the server's operator";
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return whose + "is not valid before " + date_of(::X509_get0_notBefore(certificate)) +
                   "; check this host's clock";
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the server's certificate is for another host than " + host + names_of(certificate) +
                   "; check the address, or who answers there";
        case X509_V_ERR_CERT_REVOKED:
            return whose + "has been revoked; ask the server's operator";
        case X509_V_ERR_UNABLE_TO_GET_CRL:
        case X509_V_ERR_CRL_HAS_EXPIRED:
        case X509_V_ERR_CRL_NOT_YET_VALID:
        case X509_V_ERR_CRL_SIGNATURE_FAILURE:
            return "whether the server's certificate has been revoked is not known" + reason +
                   "; renew network.crl_file";
        default:
            return whose + "is not trusted" + reason + "; check network.ca_file";
    }
}

}  // namespace

struct connection::impl {
    explicit impl(asio::any_io_executor executor) : socket(std::move(executor)) {}

    tcp::socket socket;
    std::optional<asio::ssl::stream<tcp::socket&>> tls;
    std::string trouble;
};

connection::connection(asio::any_io_executor executor) : impl_(std::make_unique<impl>(std::move(executor))) {}

connection::~connection() = default;

awaitable<error_code> connection::connect(tcp::endpoint peer)
{
    const auto [error] = co_await impl_->socket.async_connect(peer, use_tuple);
    if (error) co_return error;
    error_code ignored;  // a latency hint, no more
    impl_->socket.set_option(tcp::no_delay(true), ignored);
    co_return error_code();
}

awaitable<error_code> connection::start_tls(asio::ssl::context& context, std::string host)
{
    auto& tls = impl_->tls.emplace(impl_->socket, context);
    SSL* ssl = tls.native_handle();
    auto* parameters = ::SSL_get0_param(ssl);
    if (is_ip_literal(host)) {
        ::X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str());
    } else {
        const auto name = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
        ::X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        ::X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), name.size());
        SSL_set_tlsext_host_name(ssl, name.c_str());
    }
    tls.set_verify_callback([this, host](bool good, asio::ssl::verify_context& check) {
        if (!good && impl_->trouble.empty()) impl_->trouble = trouble_with(*check.native_handle(), host);
        return good;
    });
    const auto [error] = co_await tls.async_handshake(asio::ssl::stream_base::client, use_tuple);
    co_return error;
}

const std::string& connection::certificate_trouble() const noexcept
{
    return impl_->trouble;
}

awaitable<transfer> connection::write(std::string_view text)
{
    transfer done;
    while (done.bytes < text.size()) {
        const auto rest = asio::buffer(text.substr(done.bytes));
        const auto [error, bytes] = impl_->tls ? co_await impl_->tls->async_write_some(rest, use_tuple)
                                               : co_await impl_->socket.async_write_some(rest, use_tuple);
        done.bytes += bytes;
        done.error = error;
        if (error) break;
    }
    co_return done;
}

awaitable<transfer> connection::read_some(std::span<char> space)
{
    const auto buffer = asio::buffer(space.data(), space.size());
    const auto [error, bytes] = impl_->tls ? co_await impl_->tls->async_read_some(buffer, use_tuple)
                                           : co_await impl_->socket.async_read_some(buffer, use_tuple);
    co_return transfer{error, bytes};
}

bool connection::is_quiet()
{
    if (impl_->tls) {
        // What came with the last answer waits inside: decrypted, or in the pair of BIOs that Asio reads
        // through.
        const SSL* ssl = impl_->tls->native_handle();
        if (::SSL_pending(ssl) > 0 || ::BIO_ctrl_pending(::SSL_get_rbio(ssl)) > 0) return false;
    }
    char byte = 0;
    const auto seen = ::recv(impl_->socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void connection::close() noexcept
{
    error_code ignored;  // the descriptor is gone either way
    impl_->socket.close(ignored);
}

bool is_closed_by_peer(const error_code& error) noexcept
{
    return error == asio::error::eof || error == asio::error::connection_reset ||
           error == asio::error::broken_pipe || error == asio::ssl::error::stream_truncated;
}

}  // namespace io
