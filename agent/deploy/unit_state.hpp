#pragma once

#include "agent/io/process.hpp"
#include "policy/consumer.hpp"

#include <string>
#include <string_view>

// Asks systemd about a unit, by `systemctl show`: needs no privilege, and works wherever the hooks do.

namespace deploy {

// All empty when systemctl does not answer; errc::stopping is the only failure.
io::task<policy::unit_facts> ask_unit(io::process&, std::string systemctl, std::string unit);

// KEY=VALUE lines in any order; what is not among them stays empty.
policy::unit_facts parse_unit(std::string_view text);

}  // namespace deploy
