#include "agent/cli/setup.hpp"

#include "agent/cli/progress.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/service/control_client.hpp"
#include "agent/service/operations.hpp"
#include "config/load.hpp"
#include "policy/exit_code.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>

#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace cli {
namespace {

constexpr auto daemon_patience = std::chrono::hours(24);  // its own limits end the work long before
constexpr auto daemon_greeting = std::chrono::seconds(5);

// One answer, or none when no daemon runs here.
policy::result<std::optional<boost::json::object>> ask_daemon(const policy::desired_state& desired,
                                                              const std::string& verb,
                                                              const boost::json::object& arguments,
                                                              std::chrono::milliseconds timeout)
{
    using answer = policy::result<std::optional<boost::json::object>>;
    answer got = policy::failure{};
    boost::asio::io_context context{1};
    boost::asio::co_spawn(
        context,
        [&]() -> io::awaitable<void> {
            got = co_await service::ask_daemon(disk::paths(desired.state_dir), verb, arguments, timeout);
        },
        [](std::exception_ptr bug) {
            if (bug) std::rethrow_exception(bug);
        });
    context.run();
    return got;
}

// Who may write to the spool, and is not root, is the agent's own user (the timer, or `sudo -u
// exposure-agent`): it cannot restart a unit itself, so root's helper runs the hooks, as for `run --deploy
// unit`.
std::filesystem::path spool_of_the_unit()
{
    const std::filesystem::path directory = deploy::default_spool_directory;
    const bool ours = ::geteuid() != 0 && ::access((directory / "spool").c_str(), W_OK) == 0;
    return ours ? directory : std::filesystem::path();
}

int run_here(const globals& common, std::shared_ptr<const policy::desired_state> desired,
             const std::string& verb, boost::json::object arguments)
{
    service::application app(desired, {.spool = spool_of_the_unit()});
    if (auto taken = app.take_state_directory(); !taken) return report_failure(taken.error());
    progress bar(*desired, !common.json && verb != "login" && verb != "logout");
    boost::json::object answer;
    app.run([](service::application& a, progress& shown, std::string what, boost::json::object args,
               boost::json::object& into) -> io::awaitable<void> {
        if (auto loaded = co_await a.world().load(); !loaded) {
            into = service::answer_of(loaded.error());
            co_return;
        }
        service::operations operations(a, shown.listener());
        into = co_await operations.perform(std::move(what), std::move(args));
    }(app, bar, verb, std::move(arguments), answer));
    bar.finish();
    return show_answer(common, answer);
}

}  // namespace

std::shared_ptr<const policy::desired_state> load_configuration(const globals& common)
{
    auto loaded = config::load(common.config, config::this_process());
    for (const auto& warning : loaded.warnings)
        std::cerr << config::to_string(warning) << " (warning)\n";
    for (const auto& mistake : loaded.mistakes)
        std::cerr << config::to_string(mistake) << "\n";
    if (!loaded.state) return nullptr;
    return std::make_shared<const policy::desired_state>(std::move(*loaded.state));
}

policy::result<std::set<policy::user_name>> parse_names(const std::vector<std::string>& texts)
{
    std::set<policy::user_name> names;
    for (const auto& text : texts) {
        const auto slash = text.find('/');
        if (slash == std::string::npos || slash == 0 || slash + 1 == text.size() ||
            text.find('/', slash + 1) != std::string::npos)
            return policy::failure{
                .code = policy::errc::usage,
                .context =
                    "'" + text + "' is no name of a user: exposure/user is wanted, as `status` shows them",
                .kind = policy::retry::never};
        names.insert({text.substr(0, slash), text.substr(slash + 1)});
    }
    return names;
}

int report_failure(const policy::failure& failed)
{
    std::cerr << "exposure-agent: " << failed.context << "\n";
    return policy::exit_code::of(failed.code);
}

int show_answer(const globals& common, const boost::json::object& answer)
{
    const int code = static_cast<int>(answer.at("exit").as_int64());
    if (common.json) {
        std::cout << boost::json::serialize(answer) << "\n";
        return code;
    }
    auto& out = code == policy::exit_code::done ? std::cout : std::cerr;
    for (const auto& message : answer.at("messages").as_array())
        out << message.as_string().c_str() << "\n";
    return code;
}

int perform(const globals& common, const std::string& verb, boost::json::object arguments)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    auto answer = ask_daemon(*desired, verb, arguments, daemon_patience);
    if (!answer) return report_failure(answer.error());
    if (*answer) return show_answer(common, **answer);
    return run_here(common, desired, verb, std::move(arguments));
}

int look(const globals& common, std::function<io::awaitable<int>(service::application&)> work)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto daemon = ask_daemon(*desired, "ping", {}, daemon_greeting);
    if (!daemon) return report_failure(daemon.error());
    service::application_options options;
    if (*daemon)
        options.borrowed_tokens = [](service::application& a) -> std::unique_ptr<platform::access_tokens> {
            return std::make_unique<service::daemon_tokens>(a.paths());
        };
    service::application app(desired, std::move(options));
    if (!*daemon)
        if (auto taken = app.take_state_directory(); !taken) return report_failure(taken.error());
    int code = policy::exit_code::failed;
    app.run([](service::application& a, std::function<io::awaitable<int>(service::application&)> job,
               int& into) -> io::awaitable<void> { into = co_await job(a); }(app, std::move(work), code));
    return code;
}

}  // namespace cli
