#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/service/daemon.hpp"
#include "agent/service/read_configuration.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <csignal>
#include <iostream>

// The verbs that change something: the daemon, and what is handed to it or done here: reconcile, rotate,
// rollback, deploy, notify, takeover.

namespace cli {
namespace {

// The names as they were typed, once they are known to be names, and how long the verb may take (empty: the
// usual time).
policy::result<boost::json::object> arguments_of(const policy::desired_state& desired,
                                                 const std::vector<std::string>& texts,
                                                 const std::optional<std::string>& timeout)
{
    const auto names = parse_names(texts, desired);
    if (!names) return names.error();
    boost::json::array list;
    for (const auto& name : *names)
        list.emplace_back(name.text());
    boost::json::object arguments{{"names", std::move(list)}};
    if (!timeout) return arguments;
    const auto duration = parse_duration("--timeout", *timeout);
    if (!duration) return duration.error();
    arguments["timeout"] = duration->count();
    return arguments;
}

enum class names { optional, required };

// Hands the verb over, or does it here.
int perform_named(const globals& common, const std::string& command, const std::vector<std::string>& texts,
                  const std::optional<std::string>& timeout, names wanted, boost::json::object arguments)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    if (wanted == names::required)
        if (auto given = require_names(texts, command, *desired); !given)
            return report_failure(given.error());
    auto named = arguments_of(*desired, texts, timeout);
    if (!named) return report_failure(named.error());
    for (auto& [key, value] : *named)
        arguments[key] = value;
    return perform(common, desired, command.substr(0, command.find(' ')), std::move(arguments));
}

// As exposure-agent-deploy.service: users from the spool, actions from root's own configuration.
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
        std::cout << deploy::subject_of(name) << ": hooks succeeded\n";
    for (const auto& sentence : report->thrown_away)
        std::cerr << sentence << "\n";
    for (const auto& sentence : report->failed)
        std::cerr << sentence << "\n";
    return report->failed.empty() && report->thrown_away.empty() ? policy::exit_code::done
                                                                 : policy::exit_code::failed;
}

}  // namespace

int run_daemon(const globals& common, const run_options& options)
{
    std::signal(SIGHUP, SIG_IGN);  // until the daemon takes it for what it is: read the file again
    auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto spool =
        options.deploy == "unit" ? std::filesystem::path(options.spool_directory) : std::filesystem::path();
    const auto done = service::run(std::move(desired), {.config_file = common.config,
                                                        .environment = service::this_host(),
                                                        .spool = spool,
                                                        .version = EXPOSURE_AGENT_VERSION});
    return done ? policy::exit_code::done : report_failure(done.error());
}

int reconcile(const globals& common, const reconcile_options& options)
{
    bool accepted = options.accept_loss;
    if (!accepted && !common.no_input && is_terminal(stdin)) {
        const auto desired = load_configuration(common);
        if (!desired) return policy::exit_code::configuration;
        if (const auto change = owner_change_of(desired))
            accepted = confirmed(change->sentence() + ". Continue?", common.no_input);
    }
    return perform_named(common, "reconcile", options.names, options.timeout, names::optional,
                         {{"accept_loss", accepted}});
}

int rotate(const globals& common, const rotate_options& options)
{
    return perform_named(common, "rotate", options.names, options.timeout, names::required,
                         {{"retire_now", options.retire_now}});
}

int rollback(const globals& common, const std::vector<std::string>& texts)
{
    return perform_named(common, "rollback", texts, std::nullopt, names::required, {});
}

int deploy(const globals& common, const deploy_options& options)
{
    if (options.spool) return drain(common, options);
    return perform_named(common, options.force ? "deploy --force" : "deploy", options.names, std::nullopt,
                         options.force ? names::required : names::optional, {{"force", options.force}});
}

int notify(const globals& common, bool test)
{
    if (!test)
        return report_failure({.code = policy::errc::usage,
                               .context = "notify sends by itself when a person is needed; to try it, run: "
                                          "exposure-agent notify --test"});
    return perform(common, "notify", {});
}

int takeover(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    if (auto taken = app.take_state_directory(); !taken) return report_failure(taken.error());
    const auto stored = app.store().load();
    if (!stored) return report_failure(stored.error());
    if (!stored->cloned) {
        std::cout << "Nothing to take over: " << desired->state_dir << " belongs to this machine.\n";
        return policy::exit_code::done;
    }
    if (auto accepted = app.store().take_over(); !accepted) return report_failure(accepted.error());
    std::cout << "This machine owns " << desired->state_dir
              << " now. Stop the agent on the machine it was copied "
                 "from:\ntwo agents with one login and one owner undo each "
                 "other's work.\n";
    return policy::exit_code::done;
}

}  // namespace cli
