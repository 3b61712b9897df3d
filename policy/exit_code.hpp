#pragma once

#include "policy/result.hpp"

// Exit codes (contract section 4); those from 64 on are of sysexits.h.

namespace policy::exit_code {

inline constexpr int done = 0;
inline constexpr int failed = 1;
inline constexpr int changes_pending = 2;
inline constexpr int usage = 64;
inline constexpr int unreachable = 69;
inline constexpr int busy = 75;
inline constexpr int login = 77;
inline constexpr int configuration = 78;

// That of a verb which ended with this failure.
int of(errc) noexcept;

}  // namespace policy::exit_code
