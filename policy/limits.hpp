#pragma once

#include "policy/dates.hpp"

#include <cstddef>

// Every limit that cannot be configured, defined once.

namespace policy::limits {

using namespace std::chrono_literals;

inline constexpr std::size_t common_name_length = 64;  // X.520 ub-common-name
inline constexpr std::size_t owner_length = 64;        // contract section 2
inline constexpr std::size_t configuration_bytes = 4 << 20;
inline constexpr std::size_t response_bytes = 4 << 20;        // of one answer, except a list of users
inline constexpr std::size_t list_bytes = 128 << 20;          // read as a stream: 100,000 users are 40 MiB
inline constexpr std::size_t large_response_bytes = 1 << 20;  // larger answers are received one at a time
inline constexpr std::size_t response_header_bytes = 64 << 10;
inline constexpr std::size_t chain_certificates = 16;
inline constexpr std::size_t hook_output_bytes = 16 << 10;  // per hook, kept and shown
inline constexpr std::size_t token_bytes = 64 << 10;        // of an external access token

inline constexpr duration clock_skew = 5min;       // a larger offset from the platform's Date: observe only
inline constexpr duration poll_last = 60s;         // longest poll interval
inline constexpr duration abandon_after = 24h;     // IN PROGRESS for longer: create a new generation
inline constexpr duration probe_patience = 10min;  // how long the broker may still be granting access
inline constexpr duration creation_window = 24h;   // of reconcile.max_creates_per_user
inline constexpr std::size_t read_by_id = 20;      // up to this many users of an exposure are read one by one
inline constexpr duration list_period = 24h;       // the list is fetched at least this often
// An overdue list is fetched within this. No divisor of a day: the time of day differs from one to the next,
// so that it also suits a host that is off every night.
inline constexpr duration list_catch_up = 20h;
inline constexpr duration wake_cap = 60s;  // longest sleep before reading the wall clock again
inline constexpr int spread_percent = 5;   // share of the lifetime over which rotate_at is spread

}  // namespace policy::limits
