#include "crypto/certificate_text.hpp"

#include "crypto/digest.hpp"

#include <optional>
#include <utility>

namespace crypto {
namespace {

constexpr std::string_view begin_mark = "-----BEGIN ";
constexpr std::string_view end_mark = "-----END ";
constexpr std::string_view dashes = "-----";
constexpr int wrappings = 3;  // base64 of base64 of PEM is as deep as we look

// JSON in JSON leaves escapes behind: \n, \r and \/ become what they mean.
std::string without_escapes(std::string_view text)
{
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char next = at + 1 < text.size() ? text[at + 1] : '\0';
        const bool escape = text[at] == '\\' && (next == 'n' || next == 'r' || next == '/' || next == '\\');
        if (!escape) {
            plain += text[at];
        } else if (next != '\\') {  // of two backslashes the second begins the escape
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

// Every certificate between its marks; blocks of another kind are passed over.
policy::result<std::vector<std::string>> from_pem(std::string_view text)
{
    std::vector<std::string> pieces;
    std::string others;
    for (auto at = text.find(begin_mark); at != std::string_view::npos; at = text.find(begin_mark, at)) {
        at += begin_mark.size();
        const auto label_end = text.find(dashes, at);
        if (label_end == std::string_view::npos) return unusable("the certificate's text is cut off");
        const std::string_view label = text.substr(at, label_end - at);
        at = label_end + dashes.size();
        const auto end = text.find(end_mark, at);
        if (end == std::string_view::npos) return unusable("the certificate's text is cut off");
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

// Encoded parts in a row, each with its own padding.
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

// A SEQUENCE with a length in the long form: base64 text cannot begin like this.
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

}  // namespace

policy::failure unusable(std::string what)
{
    return {.code = policy::errc::unusable_certificate,
            .context = std::move(what),
            .kind = policy::retry::after_change};
}

policy::result<std::vector<std::string>> unwrap_certificates(std::string_view text)
{
    if (text.size() > certificate_text_bytes)
        return unusable("the certificate is larger than " + std::to_string(certificate_text_bytes) +
                        " bytes");
    return unwrap(std::string(text), wrappings);
}

}  // namespace crypto
