#pragma once

#include "policy/desired.hpp"

#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/pfr/tuple_size.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

// Short fingerprints of values, for comparison over time and for even spreading, not for secrecy.

namespace policy {

// FNV-1a, 64 bits: stable across builds and machines.
std::uint64_t stable_hash(std::string_view) noexcept;

// The hash as 16 hex digits.
std::string stable_fingerprint(std::string_view);

// Covers every setting that this user depends on: a change skips the back-off.
std::string entry_fingerprint(const desired_exposure&, const desired_user&);

// Covers every setting that the file's content and location depend on.
std::string entry_fingerprint(const desired_credential&);

namespace detail {

template <class T>
using described_members = boost::describe::describe_members<T, boost::describe::mod_any_access>;

template <class>
inline constexpr bool unknown = false;

template <auto one, auto other>
constexpr bool same_member()
{
    if constexpr (std::is_same_v<decltype(one), decltype(other)>)
        return one == other;
    else
        return false;
}

template <class T>
concept list = requires(const T& value)
{
    value.begin() != value.end();
};

template <class T>
concept maybe = requires(const T& value)
{
    value.has_value();
};

}  // namespace detail

// Appends a value unambiguously: each text is preceded by its length, each list by its size, each member by
// its name. All members count except those in `left_out`: a member missing from its struct's description, or
// of a type unknown here, does not compile.
template <auto... left_out, class T>
void append_canonical(std::string& text, const T& value)
{
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        const std::string_view part(value);
        text += std::to_string(part.size()) + ":";
        text += part;
    } else if constexpr (std::is_enum_v<T>) {
        append_canonical(text, word_of(value));
    } else if constexpr (std::is_integral_v<T>) {
        text += std::to_string(value) + ";";
    } else if constexpr (std::is_same_v<T, duration>) {
        append_canonical(text, value.count());
    } else if constexpr (std::is_same_v<T, lead>) {
        append_canonical(text, value.index());
        std::visit([&](const auto& alternative) { append_canonical(text, alternative); }, value);
    } else if constexpr (detail::maybe<T>) {
        append_canonical(text, value.has_value());
        if (value) append_canonical(text, *value);
    } else if constexpr (detail::list<T>) {
        append_canonical(text, value.size());
        for (const auto& element : value)
            append_canonical(text, element);
    } else if constexpr (requires { value.first, value.second; }) {
        append_canonical(text, value.first);
        append_canonical(text, value.second);
    } else if constexpr (boost::describe::has_describe_members<T>::value) {
        using members = detail::described_members<T>;
        static_assert(boost::pfr::tuple_size_v<T> == boost::mp11::mp_size<members>::value,
                      "a member is missing in BOOST_DESCRIBE_STRUCT");
        boost::mp11::mp_for_each<members>([&](auto member) {
            if constexpr (!(detail::same_member<decltype(member)::pointer, left_out>() || ...)) {
                append_canonical(text, std::string_view(member.name));
                append_canonical(text, value.*member.pointer);
            }
        });
    } else {
        static_assert(detail::unknown<T>, "say here how a value of this type is written");
    }
}

}  // namespace policy
