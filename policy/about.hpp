#pragma once

#include "policy/naming.hpp"

#include <cstddef>
#include <string>

namespace policy {

// "1 user", "2 users", "0 users": the one place where a number meets its noun.
inline std::string count(std::size_t number, const std::string& noun)
{
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// The sentence led by whom it is about, unless it names them already.
inline std::string about(const std::string& whom, const std::string& sentence)
{
    return sentence.find(whom) == std::string::npos ? whom + ": " + sentence : sentence;
}

inline std::string about(const user_name& name, const std::string& sentence)
{
    return about(name.text(), sentence);
}

}  // namespace policy
