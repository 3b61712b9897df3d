#include "text.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <chrono>
#include <ctime>
#include <stdexcept>

namespace simulator {

namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

std::string to_hex(std::string_view bytes)
{
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const unsigned char byte : bytes) {
        text += hex_digits[byte >> 4];
        text += hex_digits[byte & 15];
    }
    return text;
}

std::string random_bytes(std::size_t count)
{
    std::string bytes(count, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
        throw std::runtime_error{"no random numbers"};
    return bytes;
}

int hex_value(char c)
{
    const auto at = hex_digits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

std::string base64_encode(std::string_view bytes)
{
    std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int length =
        EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(length));
    return text;
}

std::string base64url_encode(std::string_view bytes)
{
    std::string text = base64_encode(bytes);
    while (!text.empty() && text.back() == '=')
        text.pop_back();
    for (char& c : text) {
        if (c == '+') c = '-';
        if (c == '/') c = '_';
    }
    return text;
}

std::optional<std::string> base64_decode(std::string_view text)
{
    std::string packed;
    packed.reserve(text.size());
    for (const char c : text) {
        if (c != '\r' && c != '\n' && c != ' ' && c != '\t') packed += c;
    }
    if (packed.empty() || packed.size() % 4 != 0) return std::nullopt;

    std::string bytes(packed.size() / 4 * 3, '\0');
    const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                       reinterpret_cast<const unsigned char*>(packed.data()),
                                       static_cast<int>(packed.size()));
    if (length < 0) return std::nullopt;
    std::size_t padding = 0;  // EVP_DecodeBlock counts padding as zero bytes
    while (padding < 2 && packed[packed.size() - 1 - padding] == '=')
        ++padding;
    bytes.resize(static_cast<std::size_t>(length) - padding);
    return bytes;
}

std::string sha256_hex(std::string_view bytes)
{
    std::array<char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                   EVP_sha256(), nullptr) != 1)
        throw std::runtime_error{"no SHA-256"};
    return to_hex({digest.data(), length});
}

std::string fingerprint(std::string_view secret)
{
    return secret.empty() ? std::string{} : sha256_hex(secret).substr(0, 16);
}

std::string random_hex(std::size_t bytes)
{
    return to_hex(random_bytes(bytes));
}

std::string random_uuid()
{
    std::string bytes = random_bytes(16);
    bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
    bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
    std::string text = to_hex(bytes);
    for (const std::size_t at : {8, 13, 18, 23})
        text.insert(at, 1, '-');
    return text;
}

std::int64_t now_ms()
{
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string percent_decode(std::string_view text, bool plus_is_blank)
{
    std::string plain;
    plain.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+' && plus_is_blank) {
            plain += ' ';
            continue;
        }
        if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
            hex_value(text[i + 2]) >= 0) {
            plain += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
            continue;
        }
        plain += text[i];
    }
    return plain;
}

std::string percent_encode(std::string_view text)
{
    constexpr std::string_view unreserved =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    std::string encoded;
    for (const char c : text) {
        if (unreserved.find(c) != std::string_view::npos)
            encoded += c;
        else
            encoded.append("%").append(to_hex({&c, 1}));
    }
    return encoded;
}

std::string lower_case(std::string_view text)
{
    std::string lower{text};
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return lower;
}

std::vector<std::string> split(std::string_view text, char separator)
{
    std::vector<std::string> parts;
    for (;;) {
        const auto end = text.find(separator);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

std::string format_utc(std::int64_t milliseconds, const char* format)
{
    const std::time_t seconds = milliseconds / 1000;
    std::tm fields{};
    gmtime_r(&seconds, &fields);
    std::array<char, 64> text{};
    return {text.data(), std::strftime(text.data(), text.size(), format, &fields)};
}

std::string http_date(std::int64_t milliseconds)
{
    return format_utc(milliseconds, "%a, %d %b %Y %H:%M:%S GMT");
}

}  // namespace simulator
