#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/io/log_format.hpp"
#include "agent/service/read_configuration.hpp"
#include "config/parse.hpp"
#include "policy/about.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

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
    auto missing = service::host_warnings(loaded, common.config);
    loaded.warnings.insert(loaded.warnings.end(), missing.begin(), missing.end());
    if (loaded.state)
        if (const auto change = owner_change_of(std::make_shared<const policy::desired_state>(*loaded.state)))
            loaded.warnings.push_back(
                {.file = common.config,
                 .text = change->sentence() + "; `exposure-agent reconcile` asks before it does that"});
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

}  // namespace cli
