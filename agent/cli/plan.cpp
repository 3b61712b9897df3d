#include "policy/plan.hpp"

#include "agent/cli/host_diagnostics.hpp"
#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/credentials.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/configuration.hpp"
#include "config/parse.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iostream>

namespace cli {
namespace {

using boost::json::array;
using boost::json::object;

array listed(const std::vector<config::diagnostic>& mistakes)
{
    array list;
    for (const auto& m : mistakes)
        list.push_back(object{{"file", m.file}, {"line", m.line}, {"column", m.column}, {"text", m.text}});
    return list;
}

std::size_t count_users(const policy::desired_state& state)
{
    std::size_t users = 0;
    for (const auto& exposure : state.exposures)
        users += exposure.users.size();
    return users;
}

}  // namespace

int check(const globals& common)
{
    auto loaded = service::read_configuration(common.config, service::this_host());
    const auto here = diagnose_host(loaded, common.config);
    loaded.warnings.insert(loaded.warnings.end(), here.warnings.begin(), here.warnings.end());
    loaded.errors.insert(loaded.errors.end(), here.mistakes.begin(), here.mistakes.end());
    if (!here.mistakes.empty()) loaded.state.reset();
    if (loaded.state)
        if (const auto change = owner_change_of(std::make_shared<const policy::desired_state>(*loaded.state)))
            loaded.warnings.push_back(
                {.file = common.config,
                 .text = change->sentence() + "; `exposure-agent reconcile` asks for confirmation first"});
    if (common.json) {
        print_json({{"schema", "exposure-agent.check/v1"},
                    {"ok", loaded.state.has_value()},
                    {"mistakes", listed(loaded.errors)},
                    {"warnings", listed(loaded.warnings)}});
        return loaded.state ? policy::exit_code::done : policy::exit_code::configuration;
    }
    for (const auto& warning : loaded.warnings)
        std::cerr << io::printable(config::to_string(warning)) << " (warning)\n";
    for (const auto& mistake : loaded.errors)
        std::cout << io::printable(config::to_string(mistake)) << "\n";
    if (!loaded.state) return policy::exit_code::configuration;
    std::cout << common.config << ": ok (" << policy::count(loaded.state->exposures.size(), "exposure")
              << ", " << policy::count(count_users(*loaded.state), "user") << ")\n";
    return policy::exit_code::done;
}

int schema()
{
    std::cout << config::schema() << "\n";
    return policy::exit_code::done;
}

// --- What the agent has decided: plan for all users, explain for one.

namespace {

using boost::json::value;

using credential_statuses = std::vector<reconcile::credential_status>;

bool selected(const policy::user_name& name, const std::set<policy::user_name>& only)
{
    return only.empty() || name.user.empty() || only.contains(name);
}

value name_or_null(const policy::user_name& name)
{
    return name.user.empty() ? value(nullptr) : value(name.user);
}

array to_json(const credential_statuses& credentials)
{
    array all;
    for (const auto& c : credentials)
        all.push_back(object{{"name", c.name},
                             {"action", c.pending() ? value("fetch") : value(nullptr)},
                             {"reason", c.reason},
                             {"sentence", c.sentence},
                             {"at", policy::format_utc(c.due_at)}});
    return all;
}

object to_json(const reconcile::preview& p, const credential_statuses& credentials,
               const std::set<policy::user_name>& only)
{
    array changes;
    for (const auto& change : p.changes)
        if (selected(change.name, only))
            changes.push_back(object{{"exposure", change.name.exposure},
                                     {"name", name_or_null(change.name)},
                                     {"action", change.next},
                                     {"reason", policy::word_of(change.why)},
                                     {"sentence", change.sentence}});
    array unmanaged;
    for (const auto& s : p.unmanaged)
        unmanaged.push_back(object{{"exposure", s.exposure},
                                   {"remote_id", s.remote_id},
                                   {"name", s.name},
                                   {"owner", s.owner ? value(*s.owner) : value(nullptr)},
                                   {"keyless", s.keyless}});
    array blocked;
    for (const auto& view : p.blocked)
        if (selected(view.name, only))
            blocked.push_back(object{{"exposure", view.name.exposure},
                                     {"name", name_or_null(view.name)},
                                     {"reason", policy::word_of(view.why)},
                                     {"sentence", view.sentence}});
    array later;
    for (const auto& step : p.later)
        if (selected(step.name, only))
            later.push_back(object{{"exposure", step.name.exposure},
                                   {"name", step.name.user},
                                   {"action", step.next},
                                   {"reason", policy::word_of(step.why)},
                                   {"sentence", step.sentence},
                                   {"at", policy::format_utc(*step.next_at)}});
    return {{"schema", "exposure-agent.plan/v1"}, {"changes", std::move(changes)},
            {"unmanaged", std::move(unmanaged)},  {"blocked", std::move(blocked)},
            {"later", std::move(later)},          {"credentials", to_json(credentials)}};
}

colour paint_of(const std::string& action)
{
    if (action == "remove" || action == "retire") return colour::red;
    return action == "create" || action == "onboard" ? colour::green : colour::yellow;
}

void print(const reconcile::preview& p, const credential_statuses& credentials,
           const std::set<policy::user_name>& only, bool decommissioned, policy::instant now)
{
    table changes({"USER", "ACTION", "REASON"});
    const auto shown = [](const policy::user_name& name) {
        return name.user.empty() ? name.exposure : name.text();
    };
    for (const auto& change : p.changes)
        if (selected(change.name, only))
            changes.add({{shown(change.name)}, {change.next, paint_of(change.next)}, {change.sentence}});
    for (const auto& view : p.blocked)
        if (selected(view.name, only))
            changes.add({{shown(view.name)}, {"blocked", colour::red}, {view.sentence}});
    for (const auto& c : credentials)
        if (c.pending()) changes.add({{"credential " + c.name}, {"fetch", colour::yellow}, {c.sentence}});
    std::cout << (!changes.empty() ? changes.text()
                  : decommissioned
                      ? "No changes. This host was decommissioned; to use it again, run: exposure-agent "
                        "decommission --undo\n"
                      : "No changes. The platform and this host match the configuration.\n");
    table later({"USER", "ACTION", "IN", "AT", "REASON"});
    for (const auto& step : p.later)
        if (selected(step.name, only))
            later.add({{step.name.text()},
                       {step.next, paint_of(step.next)},
                       {policy::format_duration(*step.next_at - now)},
                       {policy::format_utc(*step.next_at)},
                       {step.sentence}});
    if (!later.empty()) std::cout << "\nLater:\n" << later.text();
    for (const auto& s : p.unmanaged)
        if (s.keyless)
            std::cout << s.exposure << ": user " << s.remote_id << " (" << io::printable(s.name)
                      << ") carries this agent's marker, but its private key is not on this host. If it is "
                         "unused, run: exposure-agent users delete "
                      << s.exposure << " " << s.remote_id << "\n";
}

object to_json(const policy::explanation& e)
{
    const auto& decided = e.decision;
    object facts;
    for (const auto& [name, fact] : e.facts)
        facts[name] = fact;
    array changers;
    for (const auto& sentence : e.would_change)
        changers.emplace_back(sentence);
    return {{"schema", "exposure-agent.explain/v1"},
            {"exposure", decided.name.exposure},
            {"name", decided.name.user},
            {"facts", std::move(facts)},
            {"finding", policy::word_of(decided.why)},
            {"reason", decided.sentence},
            {"blocked", decided.blocked},
            {"next",
             object{{"action", decided.next.empty() ? value(nullptr) : value(decided.next)},
                    {"at", decided.next_at ? value(policy::format_utc(*decided.next_at)) : value(nullptr)}}},
            {"would_change", std::move(changers)}};
}

// "rotate at 2027-…", "no action"; of a user that waits for something else, only how long at most.
std::string next_step_of(const policy::decision& decided)
{
    if (!decided.next.empty())
        return decided.next + (decided.next_at ? " at " + policy::format_utc(*decided.next_at) : "");
    return decided.next_at ? "wait until " + policy::format_utc(*decided.next_at) + " at the latest"
                           : "no action";
}

void print(const policy::explanation& e)
{
    const auto& decided = e.decision;
    std::cout << decided.name.text() << "\n\nFacts\n";
    for (const auto& [name, fact] : e.facts)
        std::cout << "  " << name << ": " << io::printable(fact) << "\n";
    std::cout << "\nRule    " << policy::word_of(decided.why) << "\nReason  "
              << io::printable(decided.sentence) << "\nNext    " << next_step_of(decided) << "\n";
    if (!e.would_change.empty()) std::cout << "\nWhat would change this\n";
    for (const auto& sentence : e.would_change)
        std::cout << "  - " << sentence << "\n";
}

}  // namespace

int plan(const globals& common, const plan_options& options)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto only = parse_names(options.names, *desired);
    if (!only) return report_failure(only.error());
    return with_platform(desired, [&](service::application& app) -> io::awaitable<int> {
        auto& state = app.state();
        if (auto loaded = co_await state.load(); !loaded) co_return report_failure(loaded.error());
        if (auto known = reconcile::check_names(state, *only); !known)
            co_return report_failure(known.error());
        const auto preview = co_await reconcile::preview_of(state, {.ignore_backoff = true});
        credential_statuses credentials;  // with names given, `reconcile` does not touch them
        if (only->empty())
            credentials = reconcile::credential_statuses_of(app.desired(), app.paths(), app.clock().now());
        for (const auto& [exposure, failed] : preview.unreached)
            report_failure(failed);
        if (common.json)
            print_json(to_json(preview, credentials, *only));
        else if (preview.unreached.size() < state.desired().exposures.size() ||
                 state.desired().exposures.empty())
            print(preview, credentials, *only, policy::is_decommissioned(state.stored()), app.clock().now());
        if (const int code = reconcile::exit_code(preview.reach); code != policy::exit_code::done)
            co_return code;
        const bool pending =
            std::ranges::any_of(preview.changes, [&](const auto& c) { return selected(c.name, *only); }) ||
            std::ranges::any_of(credentials, &reconcile::credential_status::pending);
        co_return pending&& options.detailed_exitcode ? policy::exit_code::changes_pending
                                                      : policy::exit_code::done;
    });
}

int explain(const globals& common, const std::string& text)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto names = parse_names({text}, *desired);
    if (!names) return report_failure(names.error());
    return with_platform(desired, [&](service::application& app) -> io::awaitable<int> {
        auto& state = app.state();
        if (auto loaded = co_await state.load(); !loaded) co_return report_failure(loaded.error());
        if (auto known = reconcile::check_names(state, *names); !known)
            co_return report_failure(known.error());
        const auto preview = co_await reconcile::preview_of(state, {});
        const auto explained = policy::explain(state.desired(), state.observed(), state.stored(),
                                               preview.plan, *names->begin(), app.clock().now());
        if (common.json)
            print_json(to_json(explained));
        else
            print(explained);
        co_return policy::exit_code::done;
    });
}

}  // namespace cli
