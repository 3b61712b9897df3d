#pragma once

#include "config/scalars.hpp"
#include "config/tree.hpp"
#include "policy/desired.hpp"

#include <optional>
#include <string>
#include <vector>

// Mappings that override each other key by key, the nearest first: a user, its exposure's defaults, the
// file's defaults. A plain section is one layer. Values were checked before: a faulty one reads as if it were
// not there.

namespace config {

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

    std::optional<std::string> text(const std::string& key) const;
    std::optional<std::string> path(const std::string& key) const;  // normalised
    std::string text(const std::string& key, const std::string& fallback) const;
    std::string url(const std::string& key,
                    const std::string& fallback = {}) const;  // without slashes at its end
    policy::duration duration(const std::string& key, policy::duration fallback) const;
    int integer(const std::string& key, int fallback) const;
    bool boolean(const std::string& key, bool fallback) const;

    // A word of a list, by policy's own reader of it.
    template <class E>
    E word(const std::string& key, std::optional<E> (*read)(std::string_view) noexcept, E fallback) const
    {
        const auto* value = find(key);
        return value ? read(value->text).value_or(fallback) : fallback;
    }

    // The usable values of a list.
    std::vector<const node*> list(const std::string& key) const;

private:
    std::vector<const node*> maps_;
};

}  // namespace config
