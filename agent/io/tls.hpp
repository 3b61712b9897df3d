#pragma once

#include "policy/result.hpp"

#include <memory>
#include <optional>
#include <string>

// Whom we trust: the client's TLS context, made when the first https request needs it.

namespace boost::asio::ssl {
class context;
}

namespace io {

class tls_trust {
public:
    // No ca_file: the system's store, whose hashed directory is read on demand (a bundle of all authorities
    // takes 26 ms to read). With a crl_file the server's own certificate is checked against it.
    tls_trust(std::optional<std::string> ca_file, std::optional<std::string> crl_file);

    // TLS 1.2 or later, peer verified. Made again when one of the files has changed: a renewed CRL or CA is
    // in force from the next connection on. errc::untrusted when a file cannot be read.
    policy::result<std::shared_ptr<boost::asio::ssl::context>> context();

private:
    std::string stamp_of_files() const;

    std::optional<std::string> ca_file_;
    std::optional<std::string> crl_file_;
    std::shared_ptr<boost::asio::ssl::context> context_;
    std::string stamp_;  // of the files as context_ has them
};

}  // namespace io
