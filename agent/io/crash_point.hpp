#pragma once

#include <string_view>

// Named places around every effect, where the end-to-end tests kill the program. Nothing at all unless built
// with -DCRASH_POINTS=ON.

namespace io {

#ifdef EXPOSURE_AGENT_CRASH_POINTS
// Kills this process with SIGKILL when $EXPOSURE_AGENT_CRASH_AT is this name, or name#N at its N-th passing.
// Appends the name and the steady clock's nanoseconds to the file $EXPOSURE_AGENT_CRASH_LOG, so that a test
// can enumerate what was passed, and say how long it took from one point to another.
void crash_point(std::string_view name);
#else
inline void crash_point(std::string_view) {}
#endif

}  // namespace io
