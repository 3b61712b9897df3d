#pragma once

#include "policy/stored.hpp"

#include <optional>

// Failures remembered and the earliest next attempt. A table, not a formula: readable at three in the
// morning.

namespace policy {

// Remembers one more failure of the same thing. `wanted` is the entry's fingerprint; `expiry` that of the
// certificate in use: at least ten attempts fit into what is left of it.
failure_memory remember(const std::optional<failure_memory>& before, const failure&,
                        const std::string& wanted, std::optional<instant> expiry, instant now);

// When to try again; nullopt: at once, because nothing failed, or the entry has changed since, or the clock
// was set back to before the failure.
std::optional<instant> not_before(const std::optional<failure_memory>&, const std::string& wanted,
                                  instant now);

}  // namespace policy
