#include "policy/explain.hpp"

#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/reconcile/preview.hpp"
#include "agent/reconcile/run.hpp"
#include "policy/dates.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <iostream>

namespace cli {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

object to_json(const policy::explanation& e)
{
    object facts;
    for (const auto& [name, fact] : e.facts)
        facts[name] = fact;
    array changers;
    for (const auto& sentence : e.would_change)
        changers.emplace_back(sentence);
    return {{"schema", "exposure-agent.explain/v1"},
            {"exposure", e.name.exposure},
            {"name", e.name.user},
            {"facts", std::move(facts)},
            {"finding", policy::word_of(e.finding)},
            {"reason", e.sentence},
            {"blocked", e.blocked},
            {"next", object{{"action", e.next.empty() ? value(nullptr) : value(e.next)},
                            {"at", e.next_at ? value(policy::format_utc(*e.next_at)) : value(nullptr)}}},
            {"would_change", std::move(changers)}};
}

void print(const policy::explanation& e)
{
    std::cout << e.name.text() << "\n\nfacts\n";
    for (const auto& [name, fact] : e.facts)
        std::cout << "  " << name << ": " << fact << "\n";
    std::cout << "\nrule      " << policy::word_of(e.finding) << "\nbecause   " << e.sentence << "\n";
    std::cout << "next      " << (e.next.empty() ? "nothing" : e.next)
              << (e.next_at ? " at " + policy::format_utc(*e.next_at) : "") << "\n";
    if (!e.would_change.empty()) std::cout << "\nwhat would change it\n";
    for (const auto& sentence : e.would_change)
        std::cout << "  - " << sentence << "\n";
}

}  // namespace

int explain(const globals& common, const std::string& text)
{
    const auto names = parse_names({text});
    if (!names) return report_failure(names.error());
    return look(common, [&](service::application& app) -> io::awaitable<int> {
        auto& world = app.world();
        if (auto loaded = co_await world.load(); !loaded) co_return report_failure(loaded.error());
        if (auto known = reconcile::check_names(world, *names); !known)
            co_return report_failure(known.error());
        const auto preview = co_await reconcile::look_ahead(world);
        const auto explained = policy::explain(world.desired(), world.observed(), world.stored(),
                                               preview.plan, *names->begin(), app.clock().now());
        if (common.json)
            std::cout << boost::json::serialize(to_json(explained)) << "\n";
        else
            print(explained);
        co_return policy::exit_code::done;
    });
}

}  // namespace cli
