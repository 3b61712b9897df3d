#pragma once

#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <map>
#include <optional>
#include <string>

// When a kept credential is fetched, and what its file says.

namespace policy {

struct credential_facts {
    bool file_there = false;
    std::string wanted;  // fingerprint of the entry that it was fetched for
    std::optional<instant> fetched_at;
    std::optional<instant> next_attempt;  // after a failure
};

// When it is to be fetched; an instant that has passed: now.
instant fetch_due_at(const desired_credential&, const credential_facts&);

// The file: names in their order, each with its value. env is quoted for sh, one NAME='value' a line.
// errc::refused: a value with a NUL, which no format can carry.
result<std::string> render_values(values_format, const std::map<std::string, std::string>&);

}  // namespace policy
