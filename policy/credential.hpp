#pragma once

#include "policy/desired.hpp"
#include "policy/result.hpp"

#include <map>
#include <optional>
#include <string>

// When a kept credential is fetched, and how its file is rendered.

namespace policy {

struct credential_facts {
    bool file_there = false;
    std::string wanted;  // fingerprint of the entry it was fetched for
    std::optional<instant> fetched_at;
    std::optional<instant> next_attempt;  // after a failure
};

// When the next fetch is due; an instant in the past means now.
instant fetch_due_at(const desired_credential&, const credential_facts&);

// Renders the file, sorted by name. env is quoted for sh, one NAME='value' per line.
// errc::refused: a value contains a NUL, which no format can represent.
result<std::string> render_values(values_format, const std::map<std::string, std::string>&);

}  // namespace policy
