#pragma once

#include <string_view>

// Named points around every side effect, where the end-to-end tests
// kill the program. Empty unless built with -DCRASH_POINTS=ON.

namespace io {

#ifdef EXPOSURE_AGENT_CRASH_POINTS
// Kills this process with SIGKILL if $EXPOSURE_AGENT_CRASH_AT is this name, or at its N-th call if it is
// name#N. Appends the name and the steady clock's nanoseconds to the file $EXPOSURE_AGENT_CRASH_LOG, so that
// tests can list the points that were reached and measure the time between two of them.
void crash_point(std::string_view name);
#else
inline void crash_point(std::string_view) {}
#endif

}  // namespace io
