#pragma once

#include "agent/cli/verbs.hpp"
#include "agent/service/application.hpp"
#include "config/parse.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/status.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>

// What most verbs begin with: the configuration, names, the state directory or the daemon that holds it.

namespace cli {

// The configuration; none after every mistake was printed to standard error. The second also shows the
// mistakes, and in which state directory they leave us.
std::shared_ptr<const policy::desired_state> load_configuration(const globals&);
config::outcome read_and_report(const globals&);

// EXPOSURE/USER each. errc::usage for any other text, with the user that was probably meant.
policy::result<std::set<policy::user_name>> parse_names(const std::vector<std::string>&,
                                                        const policy::desired_state&);

// errc::usage when there is none: "rotate needs the name of a user, for example: ...".
policy::result<void> require_names(const std::vector<std::string>&, const std::string& verb,
                                   const policy::desired_state&);

// The exposure of that name; errc::usage, with the one that was probably meant.
policy::result<policy::desired_exposure> find_exposure(const std::string& name, const policy::desired_state&);

// errc::usage: "--timeout: 'soon' is not a valid duration (for example 90s, 15m or 2h)".
policy::result<policy::duration> parse_duration(const std::string& option, const std::string& text);

// Prints the failure and gives its exit code.
int report_failure(const policy::failure&);

// Runs a verb that changes something: by the daemon when one runs here, else in this process under the lock.
// Prints what came out, gives its exit code.
int perform(const globals&, const std::string& verb, boost::json::object arguments);
int perform(const globals&, std::shared_ptr<const policy::desired_state>, const std::string& verb,
            boost::json::object arguments);

// What an edit of owner would do, as far as the state on this host tells: no network, no lock.
std::optional<policy::owner_change> owner_change_of(std::shared_ptr<const policy::desired_state>);

// True when a daemon holds the state directory.
bool daemon_runs(const policy::desired_state&);

// Prints an operation's answer: JSON, or its messages.
int show_answer(const globals&, const boost::json::object& answer);

// Runs `work` in an application that only looks: bearer tokens come from the daemon when one runs; otherwise
// the state directory is taken, because a refresh may be due.
int look(const globals&, std::function<io::awaitable<int>(service::application&)> work);
int look(std::shared_ptr<const policy::desired_state>,
         std::function<io::awaitable<int>(service::application&)> work);

// Runs `work` in an application that reads what this host stores: no network, no lock.
int read_state(const globals&, std::function<io::awaitable<int>(service::application&)> work);

}  // namespace cli
