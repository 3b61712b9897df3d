#pragma once

#include "agent/service/application.hpp"
#include "policy/desired.hpp"

#include <string>
#include <vector>

// What `doctor` looks at, each with a verdict, its evidence and a remedy. Nothing is changed.

namespace cli {

enum class verdict { ok, warning, failed };

struct finding {
    std::string name;
    cli::verdict verdict = cli::verdict::ok;
    std::string evidence;
    std::string remedy;  // empty: nothing to do
};

// This host: the state directory, output directories, files named in the configuration, programs of hooks.
std::vector<finding> check_host(const policy::desired_state&);

// The way to the platform: every host over TLS, the clock, the login, what each exposure answers, the broker.
io::awaitable<void> check_platform(service::application&, std::vector<finding>&);

}  // namespace cli
