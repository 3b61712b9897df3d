#pragma once

#include <boost/describe/enum.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The words of a described enum, derived from its enumerators. An enumerator that would be a C++ keyword has
// a trailing underscore (`auto_` is "auto"); an enum whose words contain hyphens specializes word_separator.
// All at compile time.

namespace policy {

template <class E>
inline constexpr char word_separator = '_';

namespace detail {

template <class Enumerator, char separator>
struct word {
    static constexpr std::size_t length = std::string_view(Enumerator::name).size();
    static constexpr auto text = [] {
        std::array<char, length + 1> spelled{};
        for (std::size_t i = 0; i < length; ++i) {
            const char c = Enumerator::name[i];
            if (c == '_' && i + 1 == length) break;
            spelled[i] = c == '_' ? separator : c;
        }
        return spelled;
    }();
};

template <class E, class... Enumerators>
constexpr auto words(boost::mp11::mp_list<Enumerators...>)
{
    return std::array<const char*, sizeof...(Enumerators)>{
        word<Enumerators, word_separator<E>>::text.data()...};
}

template <class E, class... Enumerators>
constexpr auto values(boost::mp11::mp_list<Enumerators...>)
{
    return std::array<E, sizeof...(Enumerators)>{Enumerators::value...};
}

template <class E>
using enumerators = boost::mp11::mp_rename<boost::describe::describe_enumerators<E>, boost::mp11::mp_list>;

}  // namespace detail

// All words of E, in the order of its enumerators.
template <class E>
inline constexpr auto words_of = detail::words<E>(detail::enumerators<E>{});

template <class E>
inline constexpr auto values_of = detail::values<E>(detail::enumerators<E>{});

template <class E>
constexpr const char* word_of(E value) noexcept
{
    for (std::size_t i = 0; i < values_of<E>.size(); ++i)
        if (values_of<E>[i] == value) return words_of<E>[i];
    return "";
}

template <class E>
constexpr std::optional<E> from_word(std::string_view text) noexcept
{
    for (std::size_t i = 0; i < words_of<E>.size(); ++i)
        if (words_of<E>[i] == text) return values_of<E>[i];
    return std::nullopt;
}

// The word in `known` closest to `text`, for "did you mean";
// "" when none is within an edit distance of a third of its length.
std::string nearest(const std::string& text, const std::vector<std::string>& known);

}  // namespace policy
