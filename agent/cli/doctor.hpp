#pragma once

#include "agent/service/application.hpp"
#include "policy/desired.hpp"

#include <string>
#include <vector>

// The checks of `doctor`, each with a verdict, its evidence and a remedy. They change nothing.

namespace cli {

enum class verdict { ok, warning, failed };

struct diagnosis {
    std::string name;
    cli::verdict verdict = cli::verdict::ok;
    std::string evidence;
    std::string remedy;  // empty: nothing to do
};

using diagnoses = std::vector<diagnosis>;

// This host: state directory, configured files and secrets, outputs, hooks, units, the metrics
// port. `daemon`: one runs here and holds that port.
io::awaitable<void> check_host(service::application&, bool daemon, diagnoses&);

// The path to the platform: every host over TLS, the clock, the login, each exposure's answers, the broker.
io::awaitable<void> check_platform(service::application&, diagnoses&);

}  // namespace cli
