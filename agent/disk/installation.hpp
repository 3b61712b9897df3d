#pragma once

#include <boost/describe.hpp>

#include <string>

// Which host a state directory belongs to: a copy of it on another host is noticed (contract section 2).

namespace disk {

struct installation {
    std::string owner;    // default of `owner`, remembered since the first start
    std::string machine;  // digest of the machine id; empty: it has none

    bool operator==(const installation&) const = default;
};
BOOST_DESCRIBE_STRUCT(installation, (), (owner, machine))

// What a first start here would store: the short host name, and a digest of /etc/machine-id. A
// digest, because the id itself should not be exposed (machine-id(5)).
installation this_installation();
installation this_installation(const std::string& machine_id_file);

// A machine without an id never counts as a copy.
bool is_from_elsewhere(const installation& stored, const installation& here) noexcept;

}  // namespace disk
