#pragma once

#include "agent/deploy/hooks.hpp"
#include "agent/disk/state_directory.hpp"
#include "agent/disk/store.hpp"
#include "agent/io/clock.hpp"
#include "agent/platform/catalog_client.hpp"
#include "policy/credential.hpp"
#include "policy/desired.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <map>
#include <string>
#include <vector>

// Keeps the values of day-2 actions in files, like certificates: fetches them at their interval, replaces the
// file in one rename only when they changed, then runs the hooks. A failed fetch keeps the old file.

namespace reconcile {

struct credential_ports {
    io::clock& clock;
    platform::catalog_client& catalog;
    deploy::hooks& hooks;
    disk::store& store;
    disk::paths paths;
    boost::asio::any_io_executor pool;
};

// retry: those due if no back-off held them.
enum class fetch { due, retry, all };

struct credentials_outcome {
    std::map<std::string, policy::failure> failed;  // by name
    std::size_t kept = 0;                           // fetched, or not due
    std::optional<policy::instant> wake_at;         // when the next one is due
};

io::awaitable<credentials_outcome> keep_credentials(credential_ports, policy::desired_state, fetch);

// What `plan` shows for one credential.
struct credential_status {
    std::string name;
    std::string reason;  // stable word: absent, changed, failing, due, fresh
    std::string sentence;
    policy::instant due_at;  // the daemon's next fetch; `reconcile` always fetches

    bool pending() const { return reason != "fresh"; }
};

// Reads only the disk.
std::vector<credential_status> credential_statuses_of(const policy::desired_state&, const disk::paths&,
                                                      policy::instant now);

// The facts about one credential that need no request.
policy::credential_facts credential_facts_of(const policy::desired_credential&,
                                             const disk::credential_record&);

}  // namespace reconcile
