#pragma once

#include "policy/fingerprint.hpp"

#include <functional>
#include <string>
#include <type_traits>

// For fingerprint tests: changes one member of a described value at a time.

namespace support {

template <class T>
void change(T& value)
{
    if constexpr (std::is_same_v<T, bool>)
        value = !value;
    else if constexpr (std::is_enum_v<T>)
        value = value == policy::values_of<T>[0] ? policy::values_of<T>[1] : policy::values_of<T>[0];
    else if constexpr (std::is_integral_v<T>)
        ++value;
    else if constexpr (std::is_same_v<T, policy::duration>)
        value += policy::duration(1);
    else if constexpr (std::is_same_v<T, std::string>)
        value += "x";
    else if constexpr (std::is_same_v<T, policy::lead>)
        value = policy::percent{77};
    else if constexpr (policy::detail::maybe<T>)
        value.has_value() ? value.reset() : static_cast<void>(value.emplace());
    else if constexpr (requires { value.emplace_back(); })
        value.emplace_back();
    else if constexpr (requires { value.insert(policy::file_format::bundle); })
        value.insert(policy::file_format::bundle);
    else if constexpr (requires { value["key"] = "value"; })
        value["key"] = "value";
    else
        static_assert(policy::detail::unknown<T>, "say here how a value of this type is changed");
}

// Calls `check(name)` once for each member of `value`, at any depth, while that member and no other is
// changed.
template <class T>
void with_each_change(T& value, const std::string& name, const std::function<void(const std::string&)>& check)
{
    if constexpr (boost::describe::has_describe_members<T>::value) {
        boost::mp11::mp_for_each<policy::detail::described_members<T>>(
            [&](auto member) { with_each_change(value.*member.pointer, name + "." + member.name, check); });
    } else {
        const T before = value;
        change(value);
        check(name);
        value = before;
    }
}

}  // namespace support
