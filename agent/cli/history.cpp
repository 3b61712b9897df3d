#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/reconcile/run.hpp"
#include "policy/dates.hpp"
#include "policy/events.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <iostream>

// What happened to each user, from the state database alone.

namespace cli {
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

// A duration back from now, or a date.
policy::result<policy::instant> start_of(const std::optional<std::string>& since, policy::instant now)
{
    if (!since) return policy::instant();
    if (const auto date = policy::parse_date(*since); date && since->find('-') != std::string::npos)
        return *date;
    const auto back = parse_duration("--since", *since);
    if (!back) return back.error();
    return now - *back;
}

// A user that is gone still has a history.
policy::result<void> check_names(const reconcile::world& world, std::set<policy::user_name> names,
                                 const events& known)
{
    for (const auto& e : known)
        names.erase(e.name);
    return reconcile::check_names(world, names);
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
        if (auto loaded = co_await app.world().load(); !loaded) co_return report_failure(loaded.error());
        if (auto known = check_names(app.world(), *only, *found); !known)
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
