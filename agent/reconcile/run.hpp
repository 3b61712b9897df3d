#pragma once

#include "agent/reconcile/pass.hpp"
#include "agent/reconcile/report.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

// `reconcile`: every exposure side by side, pass after pass, until everything is converged or has failed.

namespace reconcile {

// What is done first in the first turn of each exposure; a failure ends its run there.
using turn_begins = std::function<io::task<void>(const world::hold&)>;

// What it waits for is said after this time, and again every so often.
inline constexpr std::chrono::seconds first_wait_report{10};
inline constexpr std::chrono::seconds wait_report_every{60};

struct run_options {
    policy::plan_options plan;
    std::set<policy::user_name> only;  // empty: every user, and every credential
    policy::duration timeout = std::chrono::minutes(15);
    policy::origin from = {.actor = policy::actor::person, .by = {}};
    turn_begins begin = {};
};

// Waits for IN PROGRESS, for hooks and short retries; not for a retire_after still to come. Skips back-offs.
io::awaitable<report> run(world&, run_options, step_listener = {});

// Names that the file or the private store know; errc::usage for one that neither does.
policy::result<void> check_names(const world&, const std::set<policy::user_name>&);

// Every exposure of the file, and those that only the private store still knows users of.
std::set<std::string> all_exposures(const world&);

}  // namespace reconcile
