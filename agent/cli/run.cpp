#include "agent/cli/setup.hpp"
#include "agent/service/daemon.hpp"
#include "policy/exit_code.hpp"

namespace cli {

int run_daemon(const globals& common, const run_options& options)
{
    auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto spool =
        options.deploy == "unit" ? std::filesystem::path(options.spool_directory) : std::filesystem::path();
    const auto done = service::run(std::move(desired), {.config_file = common.config,
                                                        .environment = config::this_process(),
                                                        .spool = spool,
                                                        .version = EXPOSURE_AGENT_VERSION});
    return done ? policy::exit_code::done : report_failure(done.error());
}

}  // namespace cli
