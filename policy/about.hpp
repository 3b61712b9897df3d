#pragma once

#include "policy/naming.hpp"

#include <string>

namespace policy {

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
