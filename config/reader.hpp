#pragma once

#include "config/keys.hpp"
#include "config/yaml.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace config {

// What the reader needs from the host, as a value so that tests do not depend on their host.
struct environment {
    std::string hostname;  // short: up to the first dot
    std::function<std::optional<std::string>(const std::string& name)> variable;
};

// Checks a mapping against its table: unknown and missing keys, wrong types, invalid values. Expands
// `${hostname}` and `${env:NAME}`; `$${` stands for a literal `${`. Reported values are marked `faulty`, so
// that they are neither used nor reported again.
void check(node&, const section&, const environment&, diagnostics&);

// Mappings that override each other key by key, the most specific first: a user, its exposure's defaults, the
// file's defaults. A plain section is a single layer. A faulty value is treated as missing.
class layers {
public:
    layers() = default;
    explicit layers(const node* nearest);  // nullptr: no such section

    // These layers, backed by `defaults`.
    layers over(const layers& defaults) const;

    // The mappings under `key`, from every layer that has one.
    layers in(const std::string& key) const;

    // The effective value, or nullptr when it is missing or faulty.
    const node* find(const std::string& key) const;

    // True even if the value is faulty: then no error may be derived from its absence.
    bool has(const std::string& key) const;

    // The position of `key`, or else the start of the most specific layer.
    place where(const std::string& key) const;

    std::string text(const std::string& key) const;

    // The usable values of a list.
    std::vector<const node*> list(const std::string& key) const;

private:
    std::vector<const node*> maps_;
};

}  // namespace config
