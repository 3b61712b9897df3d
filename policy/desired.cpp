#include "policy/desired.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace policy {
namespace {

template <class E, std::size_t N>
using words = std::array<std::pair<E, const char*>, N>;

constexpr words<key_type, 6> key_types = {{{key_type::rsa_2048, "rsa-2048"},
                                           {key_type::rsa_3072, "rsa-3072"},
                                           {key_type::rsa_4096, "rsa-4096"},
                                           {key_type::ecdsa_p256, "ecdsa-p256"},
                                           {key_type::ecdsa_p384, "ecdsa-p384"},
                                           {key_type::ed25519, "ed25519"}}};
constexpr words<variant, 3> variants = {
    {{variant::log, "log"}, {variant::health, "health"}, {variant::lifecycle, "lifecycle"}}};
constexpr words<strategy, 2> strategies = {{{strategy::overlap, "overlap"}, {strategy::replace, "replace"}}};
constexpr words<file_format, 5> file_formats = {{{file_format::pem, "pem"},
                                                 {file_format::bundle, "bundle"},
                                                 {file_format::pkcs12, "pkcs12"},
                                                 {file_format::java, "java"},
                                                 {file_format::librdkafka, "librdkafka"}}};
constexpr words<values_format, 3> values_formats = {
    {{values_format::env, "env"}, {values_format::json, "json"}, {values_format::yaml, "yaml"}}};

template <class E, std::size_t N>
const char* word_of(const words<E, N>& table, E value) noexcept
{
    for (const auto& [known, word] : table)
        if (known == value) return word;
    return "";
}

template <class E, std::size_t N>
std::optional<E> from_word(const words<E, N>& table, const std::string& text) noexcept
{
    for (const auto& [value, word] : table)
        if (text == word) return value;
    return std::nullopt;
}

}  // namespace

const char* name_of(key_type v) noexcept
{
    return word_of(key_types, v);
}

const char* name_of(variant v) noexcept
{
    return word_of(variants, v);
}

const char* name_of(strategy v) noexcept
{
    return word_of(strategies, v);
}

const char* name_of(file_format v) noexcept
{
    return word_of(file_formats, v);
}

const char* name_of(values_format v) noexcept
{
    return word_of(values_formats, v);
}

std::optional<key_type> key_type_from(const std::string& text) noexcept
{
    return from_word(key_types, text);
}

std::optional<variant> variant_from(const std::string& text) noexcept
{
    return from_word(variants, text);
}

std::optional<strategy> strategy_from(const std::string& text) noexcept
{
    return from_word(strategies, text);
}

std::optional<file_format> file_format_from(const std::string& text) noexcept
{
    return from_word(file_formats, text);
}

std::optional<values_format> values_format_from(const std::string& text) noexcept
{
    return from_word(values_formats, text);
}

}  // namespace policy
