#pragma once

#include "config/formats.hpp"

#include <cstddef>
#include <span>
#include <string>

// Every configuration key, defined once: its name, its meaning and the member of the desired state that it
// fills. The reader checks files against these tables and fills the members from them; the JSON Schema and
// its defaults are generated from them. A new key is one new entry.

namespace config {

class layers;
struct section;

struct key {
    enum class form { one, list, names };  // names: a map whose keys are chosen by the user

    const char* name;
    const char* about;               // its meaning, in one sentence
    const format* value = nullptr;   // of a single value, or
    const section* inner = nullptr;  // of a mapping
    form shape = form::one;
    bool required = false;

    // Fills the section object's member from this key's value;
    // without one the member keeps its default.
    void (*fill)(void* object, const layers&, const key&) = nullptr;
    std::string (*fallback)() = nullptr;  // the member's default as JSON; "" when there is none
};

struct section {
    const char* id;     // of its definition in the JSON Schema
    const char* about;  // a noun with its article: "a hook"
    std::span<const key> keys;
    std::size_t choices = 0;  // exactly one of this many leading keys must be given
    bool secret = false;      // a misplaced value here may be a secret: never quote it
};

// The whole file, read into a policy::desired_state. `defaults` are a user without a name.
const section& root_section();

// An entry of `exposures` (a policy::desired_exposure without its users) and of an exposure's `users`.
const section& exposure_section();
const section& user_section();

// Fills an object of the section's type.
void fill(const section&, void* object, const layers&);

}  // namespace config
