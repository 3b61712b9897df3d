#pragma once

#include "config/keys.hpp"
#include "config/yaml.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace config {

// What the reader takes from the machine. A value, so that tests need no machine.
struct environment {
    std::string hostname;  // short: up to the first dot
    std::function<std::optional<std::string>(const std::string& name)> variable;
};

// Holds a mapping against the table of its keys: unknown and missing keys, wrong types, values that are not
// valid. Fills in `${hostname}` and `${env:NAME}` on the way; `$${` stands for a literal `${`. What was
// reported is marked `faulty`, so that nobody uses it or reports what follows from it.
void check(node&, const section&, const environment&, diagnostics&);

// Mappings that override each other key by key, the nearest first: a user, its exposure's defaults, the
// file's defaults. A plain section is one layer. A faulty value reads as if it were not there.
class layers {
public:
    layers() = default;
    explicit layers(const node* nearest);  // nullptr: no such section

    // The same, backed by what these do not say.
    layers over(const layers& defaults) const;

    // The mapping under `key`, of every layer that has one.
    layers in(const std::string& key) const;

    // The value that counts, or nullptr: not given, or faulty.
    const node* find(const std::string& key) const;

    // Given at all, be it faulty: then nothing follows from its absence.
    bool has(const std::string& key) const;

    // Where `key` is given, else where the nearest layer begins.
    place where(const std::string& key) const;

    std::string text(const std::string& key) const;

    // The usable values of a list.
    std::vector<const node*> list(const std::string& key) const;

private:
    std::vector<const node*> maps_;
};

}  // namespace config
