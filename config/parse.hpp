#pragma once

#include "config/reader.hpp"
#include "config/yaml.hpp"
#include "policy/desired.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// The configuration (contract section 2): text in, the desired state or every error in it out.

namespace config {

struct outcome {
    std::optional<policy::desired_state> state;  // none: there are errors
    std::vector<diagnostic> errors;              // in the order of their places
    std::vector<diagnostic> warnings;
    // Where it stands in the file: "identity.client_secret", "logs/siem", "logs/siem output.owner",
    // "logs/siem hooks 0", "credential NAME output.directory"
    std::map<std::string, place> places;
    std::string state_dir;               // also of a file with errors, as far as it can be read
    std::optional<unsigned> file_owner;  // numeric user id; of who reads the file
};

// Pure, and never throws for any text.
outcome parse(const std::string& text, const std::string& file_name, const environment&);

// The configuration as a JSON Schema (draft-07), for editors; printed from the tables that the reader uses.
// It knows every key, type, range and word; what one key says against another only `parse` knows.
std::string schema();

}  // namespace config
