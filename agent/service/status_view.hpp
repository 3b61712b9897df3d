#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/platform/access_token.hpp"
#include "policy/desired.hpp"
#include "policy/notify.hpp"
#include "policy/status.hpp"
#include "policy/stored.hpp"

#include <boost/json/fwd.hpp>

#include <optional>
#include <string>
#include <vector>

// The status of everything, from the disk alone: `status`, /status.json, metrics, `systemctl status`.

namespace service {

struct credential_view {
    std::string name;
    std::string state;  // absent, valid, failing
    std::optional<policy::instant> updated_at;
    std::string last_error;  // empty: none
};

struct exposure_view {
    std::string name;
    std::string last_error;    // empty: it answered last time
    bool needs_login = false;  // last_error is about the login
    std::optional<policy::instant> next_attempt;
    std::string incident;  // empty: none
};

struct status_view {
    std::string owner;
    std::string disk;  // why nothing can be stored, and so nothing is sent; empty: no problem
    platform::login_status login;
    std::vector<policy::user_status> users;  // point into the stored state that this was made from
    std::vector<exposure_view> exposures;
    std::vector<credential_view> credentials;
    std::optional<policy::decommission> leaving;  // none: this host is not being decommissioned
    std::optional<policy::notify_memory> notify;  // none: `notify` is not configured

    bool is_decommissioned() const { return leaving && leaving->finished_at; }
};

status_view view_of(const policy::desired_state&, const policy::stored_state&, platform::login_status,
                    std::vector<credential_view>, policy::instant now);

// Why nothing can be stored in the state directory; empty: no problem.
std::string disk_trouble(const disk::paths&);

// One notice for people, with the command that helps; empty: no command does.
struct notice {
    std::string sentence;
    std::string command;
    bool attention = true;  // false: needs no action
};

// Problems and pending deletions, the same for the terminal and the status page.
std::vector<notice> notices(const status_view&, policy::instant now);

// "3 h", "now"; "-" if there is no time.
std::string until(const std::optional<policy::instant>&, policy::instant now);

// True when something needs a person's attention: `status --check` exits 1.
bool needs_attention(const status_view&);

// exposure-agent.status/v1 (contract section 4).
boost::json::object to_json(const status_view&);

// The status of the configured credentials, from their records on disk.
std::vector<credential_view> credential_views(const policy::desired_state&, const disk::paths&);

// One line for `systemctl status`: "4 certificates ok, next rotation logs/siem-forwarder in 121 d".
std::string status_line(const status_view&, policy::instant now);

}  // namespace service
