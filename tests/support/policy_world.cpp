#include "tests/support/policy_world.hpp"

#include <algorithm>
#include <stdexcept>

namespace support {
namespace {

policy::certificate_facts certificate_from(policy::instant from, char digit)
{
    return {.serial = std::string(4, digit),
            .fingerprint = std::string(64, digit),
            .not_before = from,
            .not_after = from + policy_world::lifetime,
            .expiration_date = std::nullopt};
}

std::string remote_id_of(char digit)
{
    return std::string("u-") + digit;
}

}  // namespace

std::string fingerprint_of(char digit)
{
    return std::string(64, digit);
}

policy_world::policy_world()
{
    policy::desired_exposure logs;
    logs.name = "logs";
    logs.base_url = "https://les.example.com";
    logs.tenant = "orion";
    logs.topic = "logs-orion";
    desired.owner = "web-01";
    desired.exposures.push_back(logs);
    stored.owner = "web-01";
    stored.exposures["logs"] = {
        .name = "logs",
        .where = {
            .base_url = logs.base_url, .variant = logs.variant, .tenant = logs.tenant, .instance_id = "i-1"}};
    seen().observed_at = now;
    seen().instances.push_back({.id = "i-1",
                                .name = "orion",
                                .status = policy::remote_status::ready,
                                .status_text = "READY",
                                .group = std::nullopt});
    observed.clock_ahead[logs.base_url] = 0s;
}

policy::desired_user& policy_world::want(const std::string& user)
{
    auto& users = exposure().users;
    if (const auto found = std::ranges::find(users, user, &policy::desired_user::name); found != users.end())
        return *found;
    policy::desired_user fresh;
    fresh.name = user;
    fresh.consumer_group = "siem";
    fresh.contact = "soc@example.com";
    fresh.output.directory = "/etc/" + user + "/tls";
    return users.emplace_back(fresh);
}

void policy_world::drop(const std::string& user)
{
    std::erase_if(exposure().users, [&](const policy::desired_user& u) { return u.name == user; });
}

policy::stored_user& policy_world::have(const std::string& user)
{
    auto& record = stored.users[{"logs", user}];
    if (!record.name.user.empty()) return record;
    record.name = {"logs", user};
    record.output = policy::output_condition::sound;
    return record;
}

policy::generation& policy_world::at(const std::string& user, char digit)
{
    auto* g = have(user).find(std::string(8, digit));
    if (!g) throw std::logic_error("no such generation");
    return *g;
}

policy::failure_memory policy_world::fails(const std::string& user, policy::retry kind,
                                           policy::duration next) const
{
    const auto& e = desired.exposures.front();
    const auto want = std::ranges::find(e.users, user, &policy::desired_user::name);
    return {.count = 1,
            .code = policy::errc::unavailable,
            .kind = kind,
            .sentence = "it failed",
            .last = now,
            .next_attempt = now + next,
            .wanted = want == e.users.end() ? "" : policy::entry_fingerprint(e, *want)};
}

policy::remote_user& policy_world::remote(const std::string& id)
{
    const auto found = std::ranges::find(seen().users, id, &policy::remote_user::id);
    if (found == seen().users.end()) throw std::logic_error("no such remote user");
    return *found;
}

void policy_world::vanish(const std::string& id)
{
    std::erase_if(seen().users, [&](const policy::remote_user& user) { return user.id == id; });
    seen().confirmed_missing.insert(id);
}

policy::generation policy_world::make(const std::string& user, char digit, policy::duration age)
{
    const auto& e = exposure();
    const auto& u = want(user);
    const policy::marker mark{
        .owner = stored.owner, .name = {"logs", user}, .key = policy::marker_key(fingerprint_of(digit))};
    return {.id = policy::generation_id(fingerprint_of(digit)),
            .fingerprint = fingerprint_of(digit),
            .where = known().where,
            .sent = {.common_name = policy::common_name(e.variant, e.tenant, user, std::string(8, digit)),
                     .description = policy::describe(u.description, mark),
                     .contact = u.contact,
                     .consumer_group = u.consumer_group,
                     .key = u.key,
                     .encoding = e.encoding},
            .created_at = now - age};
}

policy::remote_user& policy_world::list(const policy::user_name& name, const policy::generation& g)
{
    return seen().users.emplace_back(policy::remote_user{
        .id = g.remote_id,
        .name = g.sent.common_name,
        .status = policy::remote_status::ready,
        .status_text = "READY",
        .consumer_group = g.sent.consumer_group,
        .contact = g.sent.contact,
        .created_by = "robot",
        .creation_date = g.created_at,
        .expiration_date = std::nullopt,
        .description = g.sent.description,
        .mark =
            policy::marker{.owner = stored.owner, .name = name, .key = policy::marker_key(g.fingerprint)}});
}

policy::generation& policy_world::in_use(const std::string& user, char digit)
{
    constexpr policy::duration age = std::chrono::days(10);
    auto g = make(user, digit, age);
    const auto since = now - age;
    g.submitted_at = g.accepted_at = g.collected_at = g.published_at = g.deployed_at = since;
    g.remote_id = remote_id_of(digit);
    g.certificate = certificate_from(since, digit);
    g.verified = policy::verification::local;
    auto& record = have(user);
    list(record.name, g);
    record.previous = record.current;
    record.current = g.id;
    record.entry = {.retire_after = want(user).rotation.retire_after,
                    .directory = want(user).output.directory,
                    .hooks = want(user).hooks};
    return record.generations.emplace_back(g);
}

policy::generation& policy_world::on_its_way(stage as_far_as, const std::string& user, char digit)
{
    auto g = make(user, digit, 1h);
    if (as_far_as >= stage::sent) g.submitted_at = g.created_at;
    if (as_far_as >= stage::accepted) {
        g.remote_id = remote_id_of(digit);
        g.accepted_at = g.created_at;
        auto& user_there = list(have(user).name, g);
        if (as_far_as == stage::accepted) {
            user_there.status = policy::remote_status::in_progress;
            user_there.status_text = "IN PROGRESS";
        }
    }
    if (as_far_as >= stage::collected) {
        g.certificate = certificate_from(g.created_at, digit);
        g.collected_at = g.created_at;
        g.verified = policy::verification::local;
    }
    if (as_far_as >= stage::verified) {
        g.verified = policy::verification::broker;
        g.verified_at = g.created_at;
    }
    return have(user).generations.emplace_back(g);
}

policy::generation& policy_world::superseded(policy::duration ago, const std::string& user, char digit)
{
    auto g = make(user, digit, lifetime / 2);
    const auto since = now - lifetime / 2;
    g.submitted_at = g.accepted_at = g.collected_at = g.published_at = g.deployed_at = since;
    g.remote_id = remote_id_of(digit);
    g.certificate = certificate_from(since, digit);
    auto& record = have(user);
    list(record.name, g);
    record.previous = g.id;
    auto* current = record.find(record.current);
    if (!current) throw std::logic_error("nothing took over");
    current->published_at = current->deployed_at = now - ago;
    return *record.generations.insert(record.generations.begin(), g);
}

policy::remote_user& policy_world::second(const std::string& user, char digit, const std::string& id)
{
    auto g = at(user, digit);
    g.remote_id = id;
    return list({"logs", user}, g);
}

std::string policy_world::steps() const
{
    std::string text;
    for (const auto& a : plan().actions) {
        if (!text.empty()) text += ", ";
        text += policy::word_of(a.kind);
        if (!a.name.user.empty()) text += " " + a.name.user;
        if (!a.generation.empty()) text += std::string(" ") + a.generation.front();
        if (!a.remote_id.empty()) text += " " + a.remote_id;
    }
    return text;
}

policy::decision policy_world::view(const std::string& user) const
{
    const auto result = plan();
    const auto found = std::ranges::find(result.users, user, [](const auto& v) { return v.name.user; });
    if (found == result.users.end()) throw std::logic_error("the plan says nothing about " + user);
    return *found;
}

std::string policy_world::finding(const std::string& user) const
{
    return policy::word_of(view(user).why);
}

policy::decision policy_world::exposure_view() const
{
    return plan().exposures.at(0);
}

}  // namespace support
