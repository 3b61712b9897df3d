#pragma once

#include "agent/reconcile/pass.hpp"
#include "agent/reconcile/state.hpp"
#include "policy/plan.hpp"
#include "policy/result.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

// `reconcile`: every exposure side by side, pass after pass, until everything is converged or has failed; and
// `plan`: what that would do.

namespace reconcile {

struct user_report {
    policy::user_name name;
    bool converged = false;
    std::string sentence;   // of what it waits for, or what failed
    bool removing = false;  // the file does not name it any more

    bool operator==(const user_report&) const = default;
};

// What a reconciliation came to, for people, exit codes and metrics.
struct report {
    std::vector<user_report> users;
    std::map<std::string, policy::failure> exposures;    // that could not be looked at
    std::map<std::string, std::string> incidents;        // exposures that wait for a person
    std::map<std::string, policy::failure> credentials;  // that failed
    std::size_t reached = 0;                             // exposures and credentials that were answered

    bool converged() const;
};

// The contract's exit code: 69 says that nothing was reached, 1 that others were served.
int exit_code(const report&) noexcept;

// What is done first in the first turn of each exposure; a failure ends its run there.
using turn_begins = std::function<io::task<void>(const state::hold&)>;

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
io::awaitable<report> run(state&, run_options, step_listener = {});

// Names that the file or the private store know; errc::usage for one that neither does.
policy::result<void> check_names(const state&, const std::set<policy::user_name>&);

// Every exposure of the file, and those that only the private store still knows users of.
std::set<std::string> all_exposures(const state&);

// Of these users; empty: all of them.
std::set<std::string> exposures_of(const state&, const std::set<policy::user_name>&);

// What `reconcile` would do and why.
struct preview {
    std::vector<policy::decision> changes;  // one a user and step, exposures first
    std::vector<policy::decision> blocked;  // would be done, but waits for a person
    std::vector<policy::decision> later;    // decided already, and waiting for its time
    std::vector<policy::unmanaged_user> unmanaged;
    std::map<std::string, policy::failure> unreached;
    report reach;  // for the exit code: only what could not be looked at
    policy::plan_result plan;
};

// Observes every exposure and plans: with ignore_backoff, as a person's `reconcile` would. Changes nothing
// anywhere.
io::awaitable<preview> preview_of(state&, policy::plan_options);

}  // namespace reconcile
