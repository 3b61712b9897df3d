#pragma once

#include "policy/naming.hpp"

#include <string>

namespace policy {

// The sentence led by the user's name, unless it names the user already.
inline std::string about(const user_name& name, const std::string& sentence)
{
    return sentence.find(name.text()) == std::string::npos ? name.text() + ": " + sentence : sentence;
}

}  // namespace policy
