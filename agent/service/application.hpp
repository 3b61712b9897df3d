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

// The real ports, wired together once for one configuration: what every verb that does something runs in.

namespace disk {
class state_database;
}

namespace platform {
class oauth_tokens;
}

namespace service {

// Counts requests to the platform: operation, and HTTP status or the name of a failure.
using request_observer = platform::api_channel::observer;

// What an application runs on instead of the network, child processes and threads of its own.
struct surroundings {
    std::function<std::unique_ptr<io::http>(io::stop_event&)> http;
    std::function<std::unique_ptr<io::process>(io::stop_event&)> process;
    boost::asio::any_io_executor workers;  // for what blocks
    boost::asio::any_io_executor writer;   // of the state database: in order
};

struct application_options {
    std::filesystem::path spool;  // set: root's helper runs the hooks, asked through this directory
    request_observer watch;
    // Set: bearer tokens come from the running daemon, which alone refreshes.
    std::function<std::unique_ptr<platform::access_tokens>(class application&)> borrowed_tokens;
    std::optional<policy::duration> timeout;  // of everything that run() does
    std::optional<surroundings> runs_on;      // set: instead of the real ones
};

// From a stop to the end, an exchange at the token endpoint and the saving of its answer apart.
inline constexpr auto stop_limit = std::chrono::seconds(4);

class application {
public:
    application(std::shared_ptr<const policy::desired_state>, application_options = {});
    ~application();
    application(const application&) = delete;
    application& operator=(const application&) = delete;

    // Takes the state directory for this process. errc::busy when another agent holds it.
    policy::result<void> take_state_directory(disk::state_lock::owner = disk::state_lock::owner::command);

    // Runs until the coroutine has ended, and tokens that only memory holds are saved. SIGINT and SIGTERM
    // request a stop, and so does the time limit; what does not end within stop_limit then is left behind, as
    // a kill would leave it. A second signal ends the program at once. Exceptions are bugs and come out.
    void run(io::awaitable<void>);

    // Nothing is held open until the next request.
    void close_connections();

    // A changed configuration, from the next step on.
    void configure(std::shared_ptr<const policy::desired_state>);

    const policy::desired_state& desired() const;
    disk::paths paths() const;
    boost::asio::any_io_executor executor();
    boost::asio::any_io_executor pool();     // for tokens and their secrets alone
    boost::asio::any_io_executor outputs();  // for whatever else blocks: keys, published directories
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
    platform::oauth_tokens* oauth();  // null: the access token comes from elsewhere
    io::task<platform::login_status> login_status();

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

}  // namespace service
