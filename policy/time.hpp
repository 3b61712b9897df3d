#pragma once

#include <chrono>

// The one time type of the project: wall clock, whole seconds, UTC. Compared, stored and printed as such,
// so that a stored instant and a computed one never differ by a fraction.

namespace policy {

using instant = std::chrono::sys_seconds;
using duration = std::chrono::seconds;

}  // namespace policy
