#pragma once

#include "agent/service/status_view.hpp"

// Stored users and the status view of them, as input for the pure parts of the daemon.

namespace service_test {

using namespace std::chrono_literals;

inline constexpr policy::instant now{std::chrono::sys_days(std::chrono::year(2026) / 3 / 1)};

inline policy::desired_state two_users()
{
    policy::desired_exposure logs{
        .name = "logs", .base_url = "https://les.example.com", .tenant = "orion-123"};
    for (const char* name : {"one", "two"}) {
        policy::desired_user user{.name = name, .consumer_group = name, .contact = "team@example.com"};
        user.output.directory = std::string("/etc/tls/") + name;
        logs.users.push_back(user);
    }
    return {.owner = "web-01", .exposures = {logs}};
}

// In use for a hundred days, and valid for two hundred more.
inline policy::stored_user in_use(const std::string& name)
{
    policy::generation g{.id = "9f3c2a1b", .remote_id = "remote-" + name};
    g.sent = {.common_name = "logs-orion-123-" + name + "-9f3c2a1b",
              .contact = "team@example.com",
              .consumer_group = name};
    g.certificate = policy::certificate_facts{
        .serial = "01", .fingerprint = "02", .not_before = now - 2400h, .not_after = now + 4800h};
    g.published_at = g.deployed_at = now - 2400h;
    policy::stored_user user{.name = {"logs", name}, .generations = {g}, .current = g.id};
    user.entry.directory = "/etc/tls/" + name;
    user.output = policy::output_condition::sound;
    return user;
}

inline policy::stored_state both_in_use()
{
    policy::stored_state stored{.owner = "web-01"};
    for (const char* name : {"one", "two"})
        stored.users.emplace(policy::user_name{"logs", name}, in_use(name));
    return stored;
}

inline service::status_view view_of(const policy::desired_state& desired, const policy::stored_state& stored,
                                    platform::login_state login = platform::login_state::ok)
{
    return service::view_of(desired, stored, {.state = login}, {}, now);
}

}  // namespace service_test
