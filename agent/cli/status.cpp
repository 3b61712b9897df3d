#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/status_view.hpp"
#include "policy/dates.hpp"
#include "policy/events.hpp"
#include "policy/result.hpp"

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

const policy::certificate_facts* certificate_of(const policy::user_status& s)
{
    return s.current && s.current->certificate ? &*s.current->certificate : nullptr;
}

cell deploy_cell(const policy::user_status& s)
{
    return {policy::word_of(s.deploy), s.deploy == policy::deploy_state::failed ? colour::red : colour::none};
}

table narrow_table(const std::vector<policy::user_status>& users, policy::instant now)
{
    table shown({"USER", "STATE", "EXPIRES IN", "ROTATES IN", "DEPLOY"});
    for (const auto& s : users) {
        const auto* c = certificate_of(s);
        shown.add({{s.name.text()},
                   {policy::word_of(s.state), paint_of(s.state)},
                   {c ? service::until(c->expiry(), now) : "-"},
                   {service::until(s.rotate_at, now)},
                   deploy_cell(s)});
    }
    return shown;
}

std::string topic_of(const policy::desired_state& desired, const std::string& exposure)
{
    const auto found = std::ranges::find(desired.exposures, exposure, &policy::desired_exposure::name);
    return found == desired.exposures.end() ? "-" : found->topic;
}

table wide_table(const std::vector<policy::user_status>& users, const policy::desired_state& desired)
{
    table shown({"USER", "STATE", "VALID FROM", "EXPIRES", "ROTATES", "DEPLOY", "TOPIC", "COMMON NAME",
                 "SERIAL", "DIRECTORY"});
    for (const auto& s : users) {
        const auto* c = certificate_of(s);
        shown.add({{s.name.text()},
                   {policy::word_of(s.state), paint_of(s.state)},
                   {c ? policy::format_utc(c->not_before) : "-"},
                   {c ? policy::format_utc(c->expiry()) : "-"},
                   {time_or_dash(s.rotate_at)},
                   deploy_cell(s),
                   {topic_of(desired, s.name.exposure)},
                   {s.current ? s.current->sent.common_name : "-"},
                   {c ? c->serial : "-"},
                   {text_or_dash(s.directory)}});
    }
    return shown;
}

void say(const std::string& sentence)
{
    std::cout << io::printable(sentence) << "\n";
}

void print(const service::status_view& view, const policy::desired_state& desired, bool wide,
           policy::instant now)
{
    std::cout << (wide ? wide_table(view.users, desired) : narrow_table(view.users, now)).text();
    table credentials({"CREDENTIAL", "STATE", "UPDATED"});
    for (const auto& c : view.credentials)
        credentials.add({{c.name}, {c.state}, {time_or_dash(c.updated_at)}});
    std::cout << credentials.text();
    say(policy::tally_of(view.users).sentence());
    for (const auto& notice : service::notices(view, now))
        say(notice.sentence);
}

void keep_only(service::status_view& view, const std::set<policy::user_name>& only)
{
    if (only.empty()) return;
    std::erase_if(view.users, [&](const policy::user_status& s) { return !only.contains(s.name); });
    std::erase_if(view.exposures, [&](const service::exposure_view& e) {
        return std::ranges::none_of(only, [&](const auto& name) { return name.exposure == e.name; });
    });
    view.credentials.clear();
}

// Whether its rotation or its expiry, whichever is first, falls within that time.
bool is_due_within(const policy::user_status& s, policy::duration time, policy::instant now)
{
    const auto* c = certificate_of(s);
    return (c && c->expiry() - now <= time) || (s.rotate_at && *s.rotate_at - now <= time);
}

struct selection {
    std::set<policy::user_name> only;     // empty: all
    std::optional<policy::duration> due;  // rotates or expires within that time
};

policy::result<selection> selection_of(const status_options& options, const policy::desired_state& desired)
{
    const auto only = parse_names(options.names, desired);
    if (!only) return only.error();
    selection chosen{.only = *only};
    if (options.due) {
        const auto time = parse_duration("--due", *options.due);
        if (!time) return time.error();
        chosen.due = *time;
    }
    return chosen;
}

io::awaitable<int> show_once(service::application& app, const globals& common, const status_options& options,
                             const selection& chosen)
{
    auto& state = app.state();
    if (auto loaded = co_await state.load(); !loaded) co_return report_failure(loaded.error());
    if (auto known = reconcile::check_names(state, chosen.only); !known)
        co_return report_failure(known.error());
    co_await state.inspect_outputs("");
    auto login = co_await app.login_status();
    if (!login) co_return report_failure(login.error());
    const auto now = app.clock().now();
    auto view = service::view_of(state.desired(), state.stored(), *login,
                                 service::credential_views(state.desired(), app.paths()), now);
    view.disk = service::disk_trouble(app.paths());
    if (state.desired().notify.enabled()) view.notify = disk::state_database::load_notifications(app.paths());
    keep_only(view, chosen.only);
    if (chosen.due)
        std::erase_if(view.users, [&](const auto& s) { return !is_due_within(s, *chosen.due, now); });
    if (common.json)
        print_json(service::to_json(view));
    else if (!chosen.due || !view.users.empty())
        print(view, state.desired(), common.output == "wide", now);
    else
        std::cout << "Nothing expires or rotates within " << policy::format_duration(*chosen.due) << ".\n";
    co_return options.check&& service::needs_attention(view) ? policy::exit_code::failed
                                                             : policy::exit_code::done;
}

io::awaitable<int> show(service::application& app, const globals& common, const status_options& options,
                        const selection& chosen)
{
    for (;;) {
        if (options.watch && !common.json) std::cout << (is_terminal(stdout) ? "\033[H\033[2J" : "");
        const int code = co_await show_once(app, common, options, chosen);
        if (!options.watch) co_return code;
        std::cout << std::flush;
        if (auto slept = co_await app.clock().sleep_for(watch_every); !slept) co_return code;
    }
}

// The configuration stored by the last pass, for when the file is invalid. None: no pass yet, or unreadable.
std::optional<policy::desired_state> last_in_force(const std::string& state_dir)
{
    const disk::state_database store{disk::paths(state_dir)};
    auto last = store.last_configuration();
    if (!last || !*last) return std::nullopt;
    (*last)->state_dir = state_dir;
    return std::move(**last);
}

}  // namespace

int status(const globals& common, const status_options& options)
{
    auto read = read_and_report(common);
    const bool wrong = !read.state;
    if (wrong) {
        read.state = last_in_force(read.state_dir);
        if (!read.state) return policy::exit_code::configuration;
        std::cerr << "showing the last configuration in force, from " << io::printable(read.state_dir)
                  << "\n";
    }
    const auto desired = std::make_shared<const policy::desired_state>(std::move(*read.state));
    const auto chosen = selection_of(options, *desired);
    if (!chosen) return report_failure(chosen.error());
    service::application app(desired);
    int code = policy::exit_code::failed;
    app.run([](service::application& a, const globals& c, const status_options& o, const selection& s,
               int& into) -> io::awaitable<void> { into = co_await show(a, c, o, s); }(app, common, options,
                                                                                       *chosen, code));
    return wrong ? policy::exit_code::configuration : code;
}

// --- history: the events of each user, from the state database alone.

namespace {

using boost::json::array;
using boost::json::object;
using events = std::vector<policy::history_event>;

policy::actor actor_of(const policy::history_event& e)
{
    return e.person ? policy::actor::person : policy::actor::schedule;
}

object to_json(const events& shown)
{
    array all;
    for (const auto& e : shown)
        all.push_back(object{{"at", policy::format_utc(e.at)},
                             {"exposure", e.name.exposure},
                             {"name", e.name.user},
                             {"generation", text_or_null(e.generation)},
                             {"event", e.event},
                             {"detail", e.detail},
                             {"actor", policy::word_of(actor_of(e))},
                             {"by", text_or_null(e.by)}});
    return {{"schema", "exposure-agent.history/v1"}, {"events", std::move(all)}};
}

colour paint_of(const std::string& event)
{
    if (event == "in_use" || event == "hooks_passed") return colour::green;
    if (event == "failed" || event == "hooks_failed" || event == "refused" || event == "blocked")
        return colour::red;
    return colour::none;
}

void print(const events& all)
{
    table shown({"AT", "USER", "GENERATION", "EVENT", "BY", "DETAIL"});
    for (const auto& e : all)
        shown.add({{policy::format_utc(e.at)},
                   {e.name.text()},
                   {text_or_dash(e.generation)},
                   {e.event, paint_of(e.event)},
                   {e.by.empty() ? policy::word_of(actor_of(e)) : e.by},
                   {e.detail}});
    std::cout << (shown.empty() ? "No events.\n" : shown.text());
}

// A duration before now, or a date.
policy::result<policy::instant> start_of(const std::optional<std::string>& since, policy::instant now)
{
    if (!since) return policy::instant();
    if (const auto date = policy::parse_date(*since); date && since->find('-') != std::string::npos)
        return *date;
    const auto back = parse_duration("--since", *since);
    if (!back) return back.error();
    return now - *back;
}

// A user that no longer exists still has a history.
policy::result<void> check_names(const reconcile::state& state, std::set<policy::user_name> names,
                                 const events& known)
{
    for (const auto& e : known)
        names.erase(e.name);
    return reconcile::check_names(state, names);
}

io::awaitable<int> show(service::application& app, const globals& common, const history_options& options)
{
    const auto only = parse_names(options.names, app.desired());
    if (!only) co_return report_failure(only.error());
    const auto since = start_of(options.since, app.clock().now());
    if (!since) co_return report_failure(since.error());
    auto found = app.store().history(policy::instant());
    if (!found) co_return report_failure(found.error());
    if (!only->empty()) {
        if (auto loaded = co_await app.state().load(); !loaded) co_return report_failure(loaded.error());
        if (auto known = check_names(app.state(), *only, *found); !known)
            co_return report_failure(known.error());
    }
    std::erase_if(
        *found, [&](const auto& e) { return e.at < *since || (!only->empty() && !only->contains(e.name)); });
    if (common.json)
        print_json(to_json(*found));
    else
        print(*found);
    co_return policy::exit_code::done;
}

}  // namespace

int history(const globals& common, const history_options& options)
{
    return read_state(common, [&](service::application& app) { return show(app, common, options); });
}

}  // namespace cli
