#pragma once

#include "agent/reconcile/pass.hpp"
#include "agent/reconcile/state.hpp"
#include "policy/plan.hpp"
#include "policy/result.hpp"
#include "policy/status.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

// `reconcile`: all exposures in parallel, pass after pass, until everything has converged or failed; and
// `plan`: what that would do.

namespace reconcile {

struct user_report {
    policy::user_name name;
    bool converged = false;
    std::string sentence;  // what it waits for, or what failed

    bool operator==(const user_report&) const = default;
};

// The outcome of a reconciliation, for people, exit codes and metrics.
struct report {
    std::vector<user_report> users;
    std::map<std::string, policy::failure> exposures;    // that could not be observed
    std::map<std::string, std::string> incidents;        // exposures that wait for a person
    std::map<std::string, policy::failure> credentials;  // that failed
    policy::tally users_in_short;
    std::size_t reached = 0;  // exposures and credentials that answered

    bool converged() const;
};

// The contract's exit code: 69 if nothing was reached, 1 if others were.
int exit_code(const report&) noexcept;

// Called first when an exposure's lock is taken for the first time; a failure ends the run of that exposure.
using turn_begins = std::function<io::task<void>(const state::hold&)>;

// When a waiting run first reports what it waits for, and how often it repeats that.
inline constexpr std::chrono::seconds first_wait_report{10};
inline constexpr std::chrono::seconds wait_report_every{60};

struct run_options {
    policy::plan_options plan;
    std::set<policy::user_name> only;  // empty: every user, and every credential
    policy::duration timeout = std::chrono::minutes(15);
    policy::origin from = {.actor = policy::actor::person, .by = {}};
    turn_begins begin = {};
    bool logs_failures = true;  // false: the caller prints the report
};

// Waits for IN PROGRESS, hooks and short retries, not for a retire_after still to come. Ignores back-offs.
io::awaitable<report> run(state&, run_options, step_listener = {});

// After a login: what only waited for it is due now. Waits for passes under way in exposures where something
// did.
io::awaitable<void> forget_login_failures(state&);

// errc::usage for a name that neither the configuration nor the private store knows.
policy::result<void> check_names(const state&, const std::set<policy::user_name>&);

// Every exposure in the configuration, and those of users that only the private store still knows.
std::set<std::string> all_exposures(const state&);

// The exposures of these users; if empty, all of them.
std::set<std::string> exposures_of(const state&, const std::set<policy::user_name>&);

// What `reconcile` would do and why.
struct preview {
    std::vector<policy::decision> changes;  // one per user and step, exposures first
    std::vector<policy::decision> blocked;  // would be done, but waits for a person
    std::vector<policy::decision> later;    // already decided, but not due yet
    std::vector<policy::unmanaged_user> unmanaged;
    std::map<std::string, policy::failure> unreached;
    report reach;  // for the exit code: only what could not be observed
    policy::plan_result plan;
};

// Observes every exposure and plans; with ignore_backoff, as a `reconcile` run by a person would. Changes
// nothing, neither on disk nor on the platform.
io::awaitable<preview> preview_of(state&, policy::plan_options);

}  // namespace reconcile
