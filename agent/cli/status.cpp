#include "agent/cli/setup.hpp"
#include "agent/cli/table.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/credentials_view.hpp"
#include "agent/service/status_view.hpp"
#include "policy/about.hpp"
#include "policy/dates.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>

namespace cli {
namespace {

constexpr auto watch_every = std::chrono::seconds(2);

colour paint_of(policy::user_state state)
{
    using policy::user_state;
    switch (state) {
        case user_state::valid:
            return colour::green;
        case user_state::expired:
        case user_state::failing:
        case user_state::blocked:
            return colour::red;
        default:
            return colour::yellow;
    }
}

std::string until(const std::optional<policy::instant>& at, policy::instant now)
{
    if (!at) return "-";
    return *at <= now ? "now" : policy::format_duration(*at - now);
}

void add_row(table& users, const policy::standing& s, policy::instant now)
{
    const auto* c = s.current && s.current->certificate ? &*s.current->certificate : nullptr;
    users.add(
        {{s.name.text()},
         {policy::word_of(s.state), paint_of(s.state)},
         {c ? until(c->expiry(), now) : "-"},
         {until(s.rotate_at, now)},
         {policy::word_of(s.deploy), s.deploy == policy::deploy_state::failed ? colour::red : colour::none}});
}

std::string next_attempt(const std::optional<policy::instant>& at, policy::instant now)
{
    if (!at) return "";
    return *at <= now ? " (next attempt now)" : " (next attempt in " + until(at, now) + ")";
}

void print_login(const platform::login_status& login)
{
    if (login.state == platform::login_state::required)
        std::cout << "login required: "
                  << (login.sentence.empty() ? "say `exposure-agent login`" : login.sentence) << "\n";
    else if (!login.sentence.empty())
        std::cout << "login: " << login.sentence << "\n";
}

// What keeps a whole exposure waiting is said once, not for each of its users.
void print_user(const policy::standing& s, const std::vector<service::exposure_view>& exposures,
                policy::instant now)
{
    const auto said = std::ranges::any_of(exposures, [&](const auto& e) {
        return e.name == s.name.exposure && !s.last_error.empty() && e.last_error == s.last_error;
    });
    if (!said && (s.attention || !s.last_error.empty()))
        std::cout << policy::about(s.name, s.last_error.empty() ? s.sentence : s.last_error)
                  << next_attempt(s.next_attempt, now) << "\n";
    for (const auto& r : s.retiring)
        std::cout << s.name.text() << ": " << r.common_name << " is deleted "
                  << (r.delete_at <= now ? "with the next pass" : "in " + until(r.delete_at, now)) << "\n";
}

void print_remarks(const service::status_view& view, policy::instant now)
{
    if (!view.disk.empty()) std::cout << view.disk << "\n";
    print_login(view.login);
    for (const auto& e : view.exposures) {
        if (!e.incident.empty()) std::cout << policy::about("exposure " + e.name, e.incident) << "\n";
        if (!e.last_error.empty())
            std::cout << policy::about("exposure " + e.name, e.last_error)
                      << next_attempt(e.next_attempt, now) << "\n";
    }
    for (const auto& s : view.users)
        print_user(s, view.exposures, now);
    for (const auto& c : view.credentials)
        if (!c.last_error.empty()) std::cout << policy::about("credential " + c.name, c.last_error) << "\n";
}

void print(const service::status_view& view, policy::instant now)
{
    table users({"USER", "STATE", "EXPIRES IN", "ROTATES IN", "DEPLOY"});
    for (const auto& s : view.users)
        add_row(users, s, now);
    std::cout << users.text();
    table credentials({"CREDENTIAL", "STATE", "UPDATED"});
    for (const auto& c : view.credentials)
        credentials.add({{c.name}, {c.state}, {c.updated_at ? policy::format_utc(*c.updated_at) : "-"}});
    std::cout << credentials.text();
    print_remarks(view, now);
}

void keep_only(service::status_view& view, const std::set<policy::user_name>& only)
{
    if (only.empty()) return;
    std::erase_if(view.users, [&](const policy::standing& s) { return !only.contains(s.name); });
    std::erase_if(view.exposures, [&](const service::exposure_view& e) {
        return std::ranges::none_of(only, [&](const auto& name) { return name.exposure == e.name; });
    });
    view.credentials.clear();
}

io::awaitable<int> show_once(service::application& app, const globals& common, const status_options& options,
                             const std::set<policy::user_name>& only)
{
    auto& world = app.world();
    if (auto loaded = co_await world.load(); !loaded) co_return report_failure(loaded.error());
    if (auto known = reconcile::check_names(world, only); !known) co_return report_failure(known.error());
    co_await world.inspect_outputs("");
    auto login = co_await app.login_status();
    if (!login) co_return report_failure(login.error());
    const auto now = app.clock().now();
    auto view = service::view_of(world.desired(), world.stored(), *login,
                                 service::credential_views(world.desired(), app.paths()), now);
    view.disk = service::disk_trouble(app.paths());
    keep_only(view, only);
    if (common.json)
        std::cout << boost::json::serialize(service::to_json(view)) << std::endl;
    else
        print(view, now);
    co_return options.check&& service::needs_attention(view) ? policy::exit_code::failed
                                                             : policy::exit_code::done;
}

io::awaitable<int> show(service::application& app, const globals& common, const status_options& options,
                        const std::set<policy::user_name>& only)
{
    for (;;) {
        if (options.watch && !common.json) std::cout << (is_terminal(stdout) ? "\033[H\033[2J" : "");
        const int code = co_await show_once(app, common, options, only);
        if (!options.watch) co_return code;
        std::cout << std::flush;
        if (auto slept = co_await app.clock().sleep_for(watch_every); !slept) co_return code;
    }
}

}  // namespace

int status(const globals& common, const status_options& options)
{
    const auto only = parse_names(options.names);
    if (!only) return report_failure(only.error());
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    int code = policy::exit_code::failed;
    app.run([](service::application& a, const globals& c, const status_options& o,
               const std::set<policy::user_name>& names, int& into) -> io::awaitable<void> {
        into = co_await show(a, c, o, names);
    }(app, common, options, *only, code));
    return code;
}

}  // namespace cli
