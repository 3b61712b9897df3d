#pragma once

#include "config/environment.hpp"
#include "config/mistake.hpp"
#include "policy/desired.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// The configuration file (contract section 2): text in, the desired state or every mistake of it out.

namespace config {

struct outcome {
    std::optional<policy::desired_state> state;  // none: there are mistakes
    std::vector<mistake> mistakes;               // in the order of their places
    std::vector<mistake> warnings;
    // Where it stands in the file: "identity.client_secret", "logs/siem", "logs/siem output.owner",
    // "logs/siem hooks 0", "credential NAME output.directory"
    std::map<std::string, place> places;
    std::optional<unsigned> file_owner;  // numeric user id; only from `load`
};

// Reads the text of a file. Pure, and never throws for any text.
outcome parse(const std::string& text, const std::string& file_name, const environment&);

// Reads the file itself, and refuses one that cannot be read, is no regular file, is larger than
// limits::configuration_bytes, or that its group or others may write.
outcome load(const std::string& path, const environment&);

}  // namespace config
