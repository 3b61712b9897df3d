#pragma once

#include "policy/desired.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// Short fingerprints of values: equality over time and even spreading, not secrecy.

namespace policy {

// FNV-1a, 64 bits: stable across builds and machines.
std::uint64_t stable_hash(std::string_view) noexcept;

// The hash as 16 hex digits.
std::string stable_print(std::string_view);

// Of everything in the configuration that the life of this user depends on: a change skips a back-off.
std::string entry_fingerprint(const desired_exposure&, const desired_user&);

}  // namespace policy
