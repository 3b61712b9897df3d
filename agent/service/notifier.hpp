#pragma once

#include "agent/service/application.hpp"
#include "agent/service/status_view.hpp"
#include "policy/notify.hpp"

#include <boost/json/object.hpp>

#include <chrono>
#include <string>
#include <vector>

// `notify`: sends what policy decides to the configured command or webhook, and remembers what was sent.

namespace service {

class notifier {
public:
    // The application must outlive this object.
    explicit notifier(application& app) : app_(app) {}

    // Loads what was sent before. The state directory must be held.
    void load();

    // Sends what is due, and returns how long to wait until the next round. diagnostics: of an edited file
    // that is not in force. The state directory must be held and the state loaded.
    io::awaitable<std::chrono::milliseconds> round(platform::login_status,
                                                   std::vector<std::string> diagnostics);

    // Sends one message, whatever was sent before. Returns the receiver's answer.
    io::task<std::string> test();

    const policy::notify_memory& memory() const { return memory_; }

private:
    io::task<std::string> send(const policy::notification&);
    io::task<std::string> run_command(std::string message);
    io::task<std::string> post(std::string message);
    io::awaitable<void> keep(policy::notify_memory);

    application& app_;
    policy::notify_memory memory_;
};

// exposure-agent.notify/v1 (contract section 10).
boost::json::object to_json(const policy::notification&, const std::string& owner);

}  // namespace service
