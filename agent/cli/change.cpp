#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "config/scalars.hpp"

#include <boost/json.hpp>

// The verbs that hand their work to the daemon, or do it themselves: reconcile, rotate, rollback.

namespace cli {
namespace {

// The names as they were typed, once they are known to be names.
policy::result<boost::json::array> name_list(const std::vector<std::string>& texts)
{
    auto names = parse_names(texts);
    if (!names) return names.error();
    boost::json::array list;
    for (const auto& name : *names)
        list.emplace_back(name.text());
    return list;
}

}  // namespace

int reconcile(const globals& common, const reconcile_options& options)
{
    auto names = name_list(options.names);
    if (!names) return report_failure(names.error());
    boost::json::object arguments{{"names", std::move(*names)}, {"accept_loss", options.accept_loss}};
    if (!options.timeout.empty()) {
        const auto timeout = config::read_duration(options.timeout);
        if (!timeout)
            return report_failure({.code = policy::errc::usage,
                                   .context = "--timeout: a duration such as 90s, 15m or 2h is wanted"});
        arguments["timeout"] = timeout->count();
    }
    return perform(common, "reconcile", std::move(arguments));
}

int rotate(const globals& common, const std::vector<std::string>& texts, bool retire_now)
{
    auto names = name_list(texts);
    if (!names) return report_failure(names.error());
    return perform(common, "rotate", {{"names", std::move(*names)}, {"retire_now", retire_now}});
}

int rollback(const globals& common, const std::vector<std::string>& texts)
{
    auto names = name_list(texts);
    if (!names) return report_failure(names.error());
    return perform(common, "rollback", {{"names", std::move(*names)}});
}

}  // namespace cli
