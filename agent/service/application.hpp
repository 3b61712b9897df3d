#pragma once

#include "agent/disk/state_directory.hpp"
#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "agent/io/process.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/api_channel.hpp"
#include "agent/reconcile/state.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

// Wires the real ports together for one configuration: every command that does work runs in an application.

namespace disk {
class state_database;
}

namespace platform {
class oauth_tokens;
}

namespace service {

// Counts requests to the platform: operation, and HTTP status or the name of the failure.
using request_observer = platform::api_channel::observer;

// What an application uses instead of the real network, child processes and its own threads.
struct surroundings {
    std::function<std::unique_ptr<io::http>(io::stop_event&)> http;
    std::function<std::unique_ptr<io::process>(io::stop_event&)> process;
    boost::asio::any_io_executor workers;  // for blocking work
    boost::asio::any_io_executor writer;   // for the state database; runs in order
};

struct application_options {
    std::filesystem::path spool;  // set: root's helper runs the hooks, requested through this directory
    request_observer watch;
    // Set: bearer tokens come from the running daemon, the only process that refreshes them.
    std::function<std::unique_ptr<platform::access_tokens>(class application&)> borrowed_tokens;
    std::optional<policy::duration> timeout;  // for all of run()
    std::optional<surroundings> runs_on;      // set: replaces the real ones
};

// From the stop request to the end, not counting a token exchange and the saving of its answer.
inline constexpr auto stop_limit = std::chrono::seconds(4);

class application {
public:
    application(std::shared_ptr<const policy::desired_state>, application_options = {});
    ~application();
    application(const application&) = delete;
    application& operator=(const application&) = delete;

    // Locks the state directory for this process. errc::busy when another agent holds it.
    policy::result<void> take_state_directory(disk::state_lock::owner = disk::state_lock::owner::command);

    // Runs until the coroutine has ended and tokens that are only in memory are saved. SIGINT, SIGTERM and
    // the time limit request a stop; work that has not ended stop_limit later is abandoned, as if the
    // process had been killed. A second signal ends the program at once. Exceptions are bugs and propagate.
    void run(io::awaitable<void>);

    // Closes idle connections.
    void close_connections();

    // Replaces the configuration, from the next step on.
    void configure(std::shared_ptr<const policy::desired_state>);

    const policy::desired_state& desired() const;
    disk::paths paths() const;
    boost::asio::any_io_executor executor();
    boost::asio::any_io_executor pool();     // only for tokens and their secrets
    boost::asio::any_io_executor outputs();  // for all other blocking work: keys, published directories
    io::stop_event& stop();
    io::clock& clock();
    io::http& http();
    io::process& process();
    reconcile::state& state();
    deploy::hooks& hooks();
    platform::api_channel& channel();
    platform::exposure_api& api();
    disk::state_database& store();
    platform::access_tokens& tokens();
    platform::oauth_tokens* oauth();  // null: the access token comes from an external source
    io::task<platform::login_status> login_status();

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

}  // namespace service
