#pragma once

#include "agent/cli/verbs.hpp"
#include "agent/service/operations.hpp"
#include "config/parse.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/status.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>

// What most verbs start with: the configuration, names, the state directory or the daemon that holds it.

namespace cli {

// The configuration; null after all of its errors were printed to standard error. The second
// function returns the errors as well, and the state directory that applies despite them.
std::shared_ptr<const policy::desired_state> load_configuration(const globals&);
config::outcome read_and_report(const globals&);

// EXPOSURE/USER names. errc::usage for any other text, with a suggestion of the user that was meant.
policy::result<std::set<policy::user_name>> parse_names(const std::vector<std::string>&,
                                                        const policy::desired_state&);

// errc::usage if no name was given: "rotate needs the name of a user. Run: ...".
policy::result<void> require_names(const std::vector<std::string>&, const std::string& verb,
                                   const policy::desired_state&);

// The exposure of that name; errc::usage with a suggestion if it does not exist.
policy::result<policy::desired_exposure> find_exposure(const std::string& name, const policy::desired_state&);

// errc::usage: "--timeout: 'soon' is not a valid duration (for example 90s, 15m or 2h)".
policy::result<policy::duration> parse_duration(const std::string& option, const std::string& text);

// Prints the failure and returns its exit code.
int report_failure(const policy::failure&);

// Runs a verb that changes something: in the daemon if one runs here, else in this process under
// the lock. Prints the outcome and returns its exit code.
int perform(const globals&, service::verb_request);
int perform(const globals&, std::shared_ptr<const policy::desired_state>, service::verb_request);

// What a change of `owner` would do, according to the state on this host: no network, no lock.
std::optional<policy::owner_change> owner_change_of(std::shared_ptr<const policy::desired_state>);

// Whether a daemon holds the state directory.
bool daemon_runs(const policy::desired_state&);

// Prints a verb's answer, as JSON or as messages; returns its exit code.
int show_answer(const globals&, const service::verb_answer&);

// Runs `work` in a read-only application. Bearer tokens come from the daemon if one runs;
// otherwise the state directory is locked, because a refresh may be due.
int with_platform(const globals&, std::function<io::awaitable<int>(service::application&)> work);
int with_platform(std::shared_ptr<const policy::desired_state>,
                  std::function<io::awaitable<int>(service::application&)> work);

// Runs `work` in an application that reads only what this host stores: no network, no lock.
int read_state(const globals&, std::function<io::awaitable<int>(service::application&)> work);

}  // namespace cli
