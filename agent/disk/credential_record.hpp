#pragma once

#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

#include <cstdint>
#include <optional>
#include <string>

// What is remembered of one kept credential: {state_dir}/private/credentials/<name>.json. The values are only
// in the file that was asked for.

namespace disk {

struct credential_record {
    std::string wanted;                         // fingerprint of its entry when it was fetched last
    std::optional<policy::instant> updated_at;  // the file was written
    std::optional<policy::instant> fetched_at;  // the platform gave the values
    std::string digest;                         // of the file's content
    bool hooks_pending = false;                 // the file changed, its hooks have not all returned 0
    int failures = 0;
    std::string last_error;  // empty: the last attempt went well
    std::optional<policy::instant> next_attempt;

    bool operator==(const credential_record&) const = default;
};

// A record that is missing or cannot be used counts as none: fetching again is harmless.
credential_record load_credential_record(const paths&, const std::string& name);

[[nodiscard]] policy::result<void> save_credential_record(const paths&, const std::string& name,
                                                          const credential_record&);

}  // namespace disk
