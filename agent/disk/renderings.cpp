#include "agent/disk/renderings.hpp"

#include "crypto/certificate.hpp"
#include "policy/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace disk {
namespace {

using policy::file_format;

constexpr unsigned public_mode = 0644;
constexpr std::array names = {"key.pem", "cert.pem",  "chain.pem",         "fullchain.pem",  "bundle.pem",
                              "ca.pem",  pkcs12_name, "client.properties", "librdkafka.conf"};

bool has(const policy::output_rule& output, file_format format)
{
    return output.formats.contains(format);
}

std::string ending_in_newline(std::string_view text)
{
    std::string line(text);
    if (!line.empty() && line.back() != '\n') line += '\n';
    return line;
}

// The Kafka files refer to the others through `current`, so they stay correct when it is switched.
std::string neighbour(const publication& what, const char* name)
{
    return what.output.directory + "/current/" + name;
}

std::string client_properties(const publication& what, bool with_ca)
{
    std::string text;
    const auto line = [&text](const char* key, const std::string& value) {
        text += std::string(key) + "=" + java_property(value) + "\n";
    };
    if (!what.broker.empty()) line("bootstrap.servers", what.broker);
    line("security.protocol", "SSL");
    line("group.id", what.consumer_group);
    line("ssl.keystore.type", "PEM");
    line("ssl.keystore.location", neighbour(what, "bundle.pem"));
    if (with_ca) {
        line("ssl.truststore.type", "PEM");
        line("ssl.truststore.location", neighbour(what, "ca.pem"));
    }
    return text;
}

// librdkafka has no escape sequences.
std::string librdkafka_conf(const publication& what, bool with_ca)
{
    std::string text;
    const auto line = [&text](const char* key, const std::string& value) {
        text += std::string(key) + "=" + value + "\n";
    };
    if (!what.broker.empty()) line("bootstrap.servers", what.broker);
    line("security.protocol", "ssl");
    line("group.id", what.consumer_group);
    line("ssl.certificate.location", neighbour(what, "fullchain.pem"));
    line("ssl.key.location", neighbour(what, "key.pem"));
    if (with_ca) line("ssl.ca.location", neighbour(what, "ca.pem"));
    return text;
}

// Removes one code point from the front; a byte that is not UTF-8 counts as ISO 8859-1.
std::uint32_t next_code_point(std::string_view& text)
{
    const auto read = policy::decode_utf8(text);
    const std::uint32_t code = read.length != 0 ? read.value : static_cast<unsigned char>(text.front());
    text.remove_prefix(std::max<std::size_t>(read.length, 1));
    return code;
}

void append_escaped(std::string& to, std::uint32_t code_unit)
{
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(code_unit & 0xffff));
    to += escape;
}

}  // namespace

policy::result<key_pair> pair_of(const publication& what)
{
    auto key = crypto::private_key::from_pem(what.key_pem.view());
    if (!key) return policy::with_context("the key of " + what.name.text(), key.error());
    auto certificates = crypto::read_chain(what.fullchain_pem);
    if (!certificates)
        return policy::with_context("the certificate of " + what.name.text(), certificates.error());
    auto chain = crypto::order_chain(std::move(*certificates), key->fingerprint());
    if (!chain) return policy::with_context("the certificate of " + what.name.text(), chain.error());
    return key_pair{.key = std::move(*key), .chain = std::move(*chain)};
}

bool is_published_name(std::string_view name) noexcept
{
    return std::ranges::find(names, name) != names.end();
}

std::vector<rendered_file> render(const publication& what, const key_pair& pair, std::string_view broker_ca)
{
    const bool java = has(what.output, file_format::java);
    const bool librdkafka = has(what.output, file_format::librdkafka);
    const bool with_ca = !broker_ca.empty() && needs_broker_ca(what.output);
    const unsigned secret_mode = what.output.access.mode;
    std::string chain;
    for (const auto& one : pair.chain.rest)
        chain += one.pem();
    const std::string leaf = pair.chain.leaf.pem();
    std::string key = ending_in_newline(what.key_pem.view());

    std::vector<rendered_file> files;
    const auto add = [&files](const char* name, std::string content, unsigned mode) {
        files.push_back({.name = name, .content = crypto::secret(std::move(content)), .mode = mode});
    };
    add("key.pem", key, secret_mode);
    add("cert.pem", leaf, public_mode);
    add("chain.pem", chain, public_mode);
    add("fullchain.pem", leaf + chain, public_mode);
    if (java || has(what.output, file_format::bundle)) add("bundle.pem", key + leaf + chain, secret_mode);
    if (with_ca) add("ca.pem", std::string(broker_ca), public_mode);
    if (java) add("client.properties", client_properties(what, with_ca), public_mode);
    if (librdkafka) add("librdkafka.conf", librdkafka_conf(what, with_ca), public_mode);
    crypto::wipe(key);
    return files;
}

policy::result<rendered_file> render_pkcs12(const publication& what, const key_pair& pair,
                                            const crypto::secret& password)
{
    auto made = crypto::make_pkcs12(pair.key, pair.chain, what.name.user, password);
    if (!made) return policy::with_context(what.name.text(), made.error());
    return rendered_file{.name = pkcs12_name, .content = std::move(*made), .mode = what.output.access.mode};
}

bool needs_broker_ca(const policy::output_rule& output) noexcept
{
    return has(output, file_format::java) || has(output, file_format::librdkafka);
}

bool needs_password(const policy::output_rule& output) noexcept
{
    return has(output, file_format::pkcs12);
}

std::string java_property(std::string_view utf8)
{
    std::string value;
    while (!utf8.empty()) {
        const auto code = next_code_point(utf8);
        if (code == '\\') {
            value += "\\\\";
        } else if (code == ' ' && value.empty()) {
            value += "\\ ";  // a leading space would be skipped
        } else if (code >= 0x20 && code < 0x7f) {
            value += static_cast<char>(code);
        } else if (code <= 0xffff) {
            append_escaped(value, code);
        } else {
            append_escaped(value, 0xd800 + ((code - 0x10000) >> 10));
            append_escaped(value, 0xdc00 + ((code - 0x10000) & 0x3ff));
        }
    }
    return value;
}

}  // namespace disk
