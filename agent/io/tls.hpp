#pragma once

#include "policy/result.hpp"

#include <boost/system/error_code.hpp>
#include <openssl/types.h>

#include <memory>
#include <optional>
#include <string>

// TLS client: trusted authorities, the expected server, and why a handshake failed.

namespace boost::asio::ssl {
class context;
}

namespace io {

class tls_trust {
public:
    // Without ca_file: the system's store, whose hashed directory is read on demand (reading a bundle of all
    // authorities takes 26 ms). With crl_file, every certificate in the chain is checked against it.
    tls_trust(std::optional<std::string> ca_file, std::optional<std::string> crl_file);

    // TLS 1.2 or later, peer verified. Rebuilt when one of the files has changed: a renewed CRL or CA takes
    // effect with the next connection. errc::untrusted when a file cannot be read.
    policy::result<std::shared_ptr<boost::asio::ssl::context>> context();

private:
    std::string stamp_of_files() const;

    std::optional<std::string> ca_file_;
    std::optional<std::string> crl_file_;
    std::shared_ptr<boost::asio::ssl::context> context_;
    std::string stamp_;  // of the files as loaded into context_
};

// Requires the certificate to be valid for this host name or address, by its subjectAltName only (RFC 9525);
// sends SNI for names (RFC 6066 section 3).
policy::result<void> expect_server(SSL*, const std::string& host);

// Why a certificate was rejected, as a sentence: "the server's certificate has expired on ...".
std::string why_refused(X509_STORE_CTX&, const std::string& host);

// Any other handshake failure.
policy::failure handshake_failure(const boost::system::error_code&);

}  // namespace io
