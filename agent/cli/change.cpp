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

// Does the verb for these names, for as long as `timeout` allows (empty: the usual time).
int perform_named(const globals& common, const std::string& verb, const std::vector<std::string>& texts,
                  const std::string& timeout, boost::json::object arguments)
{
    auto names = name_list(texts);
    if (!names) return report_failure(names.error());
    arguments["names"] = std::move(*names);
    if (!timeout.empty()) {
        const auto duration = config::read_duration(timeout);
        if (!duration)
            return report_failure({.code = policy::errc::usage,
                                   .context = "--timeout: a duration such as 90s, 15m or 2h is wanted"});
        arguments["timeout"] = duration->count();
    }
    return perform(common, verb, std::move(arguments));
}

}  // namespace

int reconcile(const globals& common, const reconcile_options& options)
{
    return perform_named(common, "reconcile", options.names, options.timeout,
                         {{"accept_loss", options.accept_loss}});
}

int rotate(const globals& common, const rotate_options& options)
{
    return perform_named(common, "rotate", options.names, options.timeout,
                         {{"retire_now", options.retire_now}});
}

int rollback(const globals& common, const std::vector<std::string>& texts)
{
    return perform_named(common, "rollback", texts, "", {});
}

}  // namespace cli
