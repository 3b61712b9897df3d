#pragma once

#include "policy/dates.hpp"

#include <cstddef>

// Every limit of the product that has no key in the configuration. One name, one place.

namespace policy::limits {

using namespace std::chrono_literals;

inline constexpr std::size_t common_name_length = 64;  // X.520 ub-common-name
inline constexpr std::size_t owner_length = 64;        // contract section 2
inline constexpr std::size_t configuration_bytes = 4 << 20;
inline constexpr std::size_t response_bytes = 4 << 20;        // of one answer, but a list of users
inline constexpr std::size_t list_bytes = 128 << 20;          // read as a stream: 100,000 users are 40 MiB
inline constexpr std::size_t large_response_bytes = 1 << 20;  // larger ones are received one at a time
inline constexpr std::size_t response_header_bytes = 64 << 10;
inline constexpr std::size_t chain_certificates = 16;
inline constexpr std::size_t hook_output_bytes = 16 << 10;  // of each hook, kept and shown
inline constexpr std::size_t token_bytes = 64 << 10;        // of an external access token

inline constexpr duration clock_skew = 5min;       // more than this against the platform's Date: observe only
inline constexpr duration poll_last = 60s;         // and never rarer than this
inline constexpr duration abandon_after = 24h;     // IN PROGRESS for longer: a new generation is made
inline constexpr duration probe_patience = 10min;  // access is still being granted at the broker
inline constexpr duration creation_window = 24h;   // of reconcile.max_creates_per_user
inline constexpr std::size_t read_by_id = 20;      // users of an exposure here that are read one by one
inline constexpr duration list_period = 24h;       // the list is fetched at least this often
inline constexpr duration list_catch_up = 2h;      // and where it could not be, within this
inline constexpr duration wake_cap = 60s;          // every sleep looks at the wall clock again
inline constexpr int spread_percent = 5;           // of the lifetime, rotate_at is spread over it

}  // namespace policy::limits
