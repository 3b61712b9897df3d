#pragma once

#include "policy/action.hpp"

namespace support {

// The name of the enumerator, for messages and expectations.
const char* word_of(policy::action_kind) noexcept;

}  // namespace support
