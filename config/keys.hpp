#pragma once

#include "config/formats.hpp"

#include <cstddef>
#include <span>

// Every key of the configuration, once: the reader checks a file against these tables, and the JSON Schema is
// printed from them. A new key is one line here and one line where its section is read.

namespace config {

struct section;

struct field {
    enum class form { one, list, names };  // names: a map whose keys the user chooses

    const char* name;
    const char* about;               // what it is, in one sentence
    const format* value = nullptr;   // of a single value, or
    const section* inner = nullptr;  // of a mapping
    form shape = form::one;
    bool required = false;
    const char* fallback = nullptr;  // the default, as JSON
};

struct section {
    const char* id;     // of its definition in the JSON Schema
    const char* about;  // a noun with its article: "a hook"
    std::span<const field> fields;
    std::size_t choices = 0;  // exactly one of this many first fields is given
    bool secret = false;      // what stands here by mistake may be a secret, and is never shown
};

// The whole file. `defaults` are a user without its name.
const section& root_section();

}  // namespace config
