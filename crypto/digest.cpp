#include "crypto/digest.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace crypto {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// 0 to 63; -1 for characters that are in neither base64 nor base64url.
int value_of(char c)
{
    if (c == '-') return 62;
    if (c == '_') return 63;
    const auto at = alphabet.find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

}  // namespace

std::string hex(std::string_view bytes)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        text += digits[static_cast<unsigned char>(c) >> 4];
        text += digits[static_cast<unsigned char>(c) & 15];
    }
    return text;
}

std::string sha256(std::string_view bytes)
{
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                   EVP_sha256(), nullptr) != 1)
        throw std::runtime_error("OpenSSL offers no SHA-256");
    return digest;
}

std::string sha256_hex(std::string_view bytes)
{
    return hex(sha256(bytes));
}

std::string base64(std::string_view bytes)
{
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    std::uint32_t bits = 0;
    int held = 0;
    for (const char c : bytes) {
        bits = bits << 8 | static_cast<unsigned char>(c);
        for (held += 8; held >= 6; held -= 6)
            text += alphabet[bits >> (held - 6) & 63];
    }
    if (held > 0) text += alphabet[bits << (6 - held) & 63];
    while (text.size() % 4 != 0)
        text += '=';
    return text;
}

std::optional<std::string> base64_decode(std::string_view text)
{
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 3);
    std::uint32_t bits = 0;
    std::size_t digits = 0;
    std::size_t padding = 0;
    for (const char c : text) {
        if (is_blank(c)) continue;
        if (c == '=') {
            ++padding;
            continue;
        }
        const int value = value_of(c);
        if (value < 0 || padding > 0) return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        ++digits;
        // in each group of four, digits two, three and four complete a byte
        if (digits % 4 != 1) bytes += static_cast<char>(bits >> (digits % 4 == 0 ? 0 : 8 - digits % 4 * 2));
    }
    if (digits % 4 == 1) return std::nullopt;
    if (padding > 0 && (digits + padding) % 4 != 0) return std::nullopt;
    return padding > 2 ? std::nullopt : std::optional(std::move(bytes));
}

std::string random_hex(std::size_t bytes)
{
    std::string random(bytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1)
        throw std::runtime_error("the system's random source failed");
    return hex(random);
}

}  // namespace crypto
