#pragma once

#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

#include <optional>
#include <string>

// Which installation the state directory belongs to: {state_dir}/private/agent.json.

namespace disk {

struct agent_record {
    std::string owner;    // default of `owner`, remembered from the first start on (contract section 2)
    std::string machine;  // digest of the machine's id; empty: it has none

    bool operator==(const agent_record&) const = default;
};

// What a first start here would write: the short host name, and the digest of /etc/machine-id. A digest,
// because the id itself is not to be shown to anybody (machine-id(5)).
agent_record this_installation();
agent_record this_installation(const std::string& machine_id_file);

// True when the record was made on another machine. A machine without an id is nobody's copy.
bool is_from_elsewhere(const agent_record& stored, const agent_record& here) noexcept;

// None: there never was a start. errc::disk, retry::never: the file cannot be used, with the remedy.
[[nodiscard]] policy::result<std::optional<agent_record>> load_agent_record(const paths&);

[[nodiscard]] policy::result<void> save_agent_record(const paths&, const agent_record&);

}  // namespace disk
