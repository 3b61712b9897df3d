#pragma once

#include "agent/disk/publisher.hpp"
#include "crypto/certificate.hpp"
#include "crypto/key.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <string>
#include <string_view>
#include <vector>

// What stands in the files of one generation (contract section 5), as values: nothing is read or written.

namespace disk {

struct rendered_file {
    std::string name;
    crypto::secret content;
    unsigned mode = 0;  // output.mode if it holds the key, else 0644
};

// What the texts of a publication mean.
struct key_pair {
    crypto::private_key key;
    crypto::certificate_chain chain;
};

// errc::crypto, unusable_certificate: not a key and a certificate for it; nothing of it may be published.
[[nodiscard]] policy::result<key_pair> pair_of(const publication&);

// The file whose bytes are never the same twice: see render_pkcs12.
inline constexpr const char* pkcs12_name = "client.p12";

// Every name that a file of ours may have in the directory of a generation, whatever the formats.
bool is_published_name(std::string_view name) noexcept;

// All files but client.p12: the same publication gives the same bytes. The four PEM files are there with any
// format. `broker_ca` is the content of broker_ca_file, empty when the configuration names none.
std::vector<rendered_file> render(const publication&, const key_pair&, std::string_view broker_ca);

// errc::crypto: an empty password, or OpenSSL refused.
[[nodiscard]] policy::result<rendered_file> render_pkcs12(const publication&, const key_pair&,
                                                          const crypto::secret& password);

// Which outside files the formats are made from.
bool needs_broker_ca(const policy::output_rule&) noexcept;
bool needs_password(const policy::output_rule&) noexcept;

// A value as java.util.Properties reads it from ISO 8859-1 (JDK, Properties.load).
std::string java_property(std::string_view utf8);

}  // namespace disk
