#pragma once

#include "agent/disk/publisher.hpp"
#include "crypto/certificate.hpp"
#include "crypto/key.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <string>
#include <string_view>
#include <vector>

// The contents of the files of one generation (contract section 5), as values: reads and writes nothing.

namespace disk {

struct rendered_file {
    std::string name;
    crypto::secret content;
    unsigned mode = 0;  // output.mode if it contains the key, else 0644
};

// The key and certificates of a publication, parsed.
struct key_pair {
    crypto::private_key key;
    crypto::certificate_chain chain;
};

// errc::crypto, unusable_certificate: not a key and its certificate; nothing of it may be published.
[[nodiscard]] policy::result<key_pair> pair_of(const publication&);

// The file whose bytes differ each time it is made: see render_pkcs12.
inline constexpr const char* pkcs12_name = "client.p12";

// Every name that one of our files may have in a generation's directory, in any format.
bool is_published_name(std::string_view name) noexcept;

// All files except client.p12; the same publication gives the same bytes. The four PEM files are
// part of every format. `broker_ca` is the content of broker_ca_file, empty if none is configured.
std::vector<rendered_file> render(const publication&, const key_pair&, std::string_view broker_ca);

// errc::crypto: the password is empty, or OpenSSL failed.
[[nodiscard]] policy::result<rendered_file> render_pkcs12(const publication&, const key_pair&,
                                                          const crypto::secret& password);

// Which external files the formats need.
bool needs_broker_ca(const policy::output_rule&) noexcept;
bool needs_password(const policy::output_rule&) noexcept;

// A value escaped so that java.util.Properties reads it from ISO 8859-1 (JDK, Properties.load).
std::string java_property(std::string_view utf8);

}  // namespace disk
