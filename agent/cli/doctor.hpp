#pragma once

#include "agent/service/application.hpp"
#include "policy/desired.hpp"

#include <string>
#include <vector>

// What `doctor` checks, each with a verdict, its evidence and a remedy. Nothing is changed.

namespace cli {

enum class verdict { ok, warning, failed };

struct diagnosis {
    std::string name;
    cli::verdict verdict = cli::verdict::ok;
    std::string evidence;
    std::string remedy;  // empty: nothing to do
};

using diagnoses = std::vector<diagnosis>;

// This host: state directory, files and secrets of the configuration, outputs, hooks, units, the metrics
// port. `daemon`: one runs here, which has the port.
io::awaitable<void> check_host(service::application&, bool daemon, diagnoses&);

// The way to the platform: every host over TLS, the clock, the login, what each exposure answers, the broker.
io::awaitable<void> check_platform(service::application&, diagnoses&);

}  // namespace cli
