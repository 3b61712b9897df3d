#pragma once

#include "config/formats.hpp"

#include <cstddef>
#include <span>
#include <string>

// Every key of the configuration, once: its name, what it is, and the member of the desired state that it
// fills. The reader checks a file against these tables and fills the members from it; the JSON Schema and its
// defaults are printed from them. A new key is one entry.

namespace config {

class layers;
struct section;

struct key {
    enum class form { one, list, names };  // names: a map whose keys the user chooses

    const char* name;
    const char* about;               // what it is, in one sentence
    const format* value = nullptr;   // of a single value, or
    const section* inner = nullptr;  // of a mapping
    form shape = form::one;
    bool required = false;

    // Fills the member of the section's object with what the file says under this key; the default stays
    // otherwise.
    void (*fill)(void* object, const layers&, const key&) = nullptr;
    std::string (*fallback)() = nullptr;  // the member's default as JSON; "" when there is none
};

struct section {
    const char* id;     // of its definition in the JSON Schema
    const char* about;  // a noun with its article: "a hook"
    std::span<const key> keys;
    std::size_t choices = 0;  // exactly one of this many first keys is given
    bool secret = false;      // what stands here by mistake may be a secret, and is never shown
};

// The whole file; its object is a policy::desired_state. `defaults` are a user without its name.
const section& root_section();

// An entry of `exposures` (a policy::desired_exposure without its users), and of an exposure's `users`.
const section& exposure_section();
const section& user_section();

// Fills an object of the section's type.
void fill(const section&, void* object, const layers&);

}  // namespace config
