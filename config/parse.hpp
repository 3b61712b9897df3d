#pragma once

#include "config/reader.hpp"
#include "config/yaml.hpp"
#include "policy/desired.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// The configuration (contract section 2): from text to the desired state, or to all errors in it.

namespace config {

struct outcome {
    std::optional<policy::desired_state> state;  // unset: there are errors
    std::vector<diagnostic> errors;              // in order of position
    std::vector<diagnostic> warnings;
    // Positions of entries in the file: "identity.client_secret", "logs/siem", "logs/siem output.owner",
    // "logs/siem hooks 0", "credential NAME output.directory"
    std::map<std::string, place> places;
    std::string state_dir;               // even for a file with errors, as far as it can be read
    std::optional<unsigned> file_owner;  // numeric user id; set by the caller that reads the file
};

// Pure; never throws, for any text.
outcome parse(const std::string& text, const std::string& file_name, const environment&);

// The configuration as a JSON Schema (draft-07) for editors, generated from the reader's tables. It covers
// every key, type, range and word; rules between keys are checked only by `parse`.
std::string schema();

}  // namespace config
