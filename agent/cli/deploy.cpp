#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/deploy/hooks_runner.hpp"
#include "agent/deploy/spool_drain.hpp"
#include "agent/disk/file_store.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <iostream>

namespace cli {
namespace {

// Root's helper: names from the spool, actions from root's own configuration.
int drain(const globals& common, const deploy_options& options)
{
    if (auto trusted = deploy::refuse_unless_trusted(common.config); !trusted) {
        report_failure(trusted.error());
        return policy::exit_code::configuration;
    }
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    auto spool = deploy::spool_reader::open(options.spool_directory);
    if (!spool) return report_failure(spool.error());
    service::application app(desired);
    policy::result<deploy::drain_report> report = policy::failure{};
    app.run([](service::application& a, deploy::spool_reader& from,
               policy::result<deploy::drain_report>& into) -> io::awaitable<void> {
        into = co_await deploy::drain_spool(from, a.desired(), a.hooks());
    }(app, *spool, report));
    if (!report) return report_failure(report.error());
    for (const auto& name : report->done)
        std::cout << deploy::subject_of(name) << ": hooks passed\n";
    for (const auto& sentence : report->thrown_away)
        std::cerr << sentence << "\n";
    for (const auto& sentence : report->failed)
        std::cerr << sentence << "\n";
    return report->failed.empty() ? policy::exit_code::done : policy::exit_code::failed;
}

}  // namespace

int deploy(const globals& common, const deploy_options& options)
{
    if (options.spool) return drain(common, options);
    auto names = parse_names(options.names);
    if (!names) return report_failure(names.error());
    if (options.force && names->empty())
        return report_failure({.code = policy::errc::usage,
                               .context = "deploy --force runs the hooks of the users that you name"});
    boost::json::array list;
    for (const auto& name : *names)
        list.emplace_back(name.text());
    return perform(common, "deploy", {{"names", std::move(list)}, {"force", options.force}});
}

int takeover(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    if (auto taken = app.take_state_directory(); !taken) return report_failure(taken.error());
    if (auto accepted = app.store().take_over(); !accepted) return report_failure(accepted.error());
    std::cout << "This machine owns the state directory now. Make sure that the machine it was copied from "
                 "has stopped:\n"
                 "two agents with one login and one owner undo each other's work.\n";
    return policy::exit_code::done;
}

}  // namespace cli
