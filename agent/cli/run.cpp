#include "agent/cli/exit_codes.hpp"
#include "agent/cli/setup.hpp"
#include "agent/service/daemon.hpp"

namespace cli {

int run_daemon(const globals& common, bool deploy_unit)
{
    auto desired = load_configuration(common);
    if (!desired) return exit_code::configuration;
    const auto done = service::run(std::move(desired), {.config_file = common.config,
                                                        .environment = config::this_process(),
                                                        .deploy_unit = deploy_unit,
                                                        .version = EXPOSURE_AGENT_VERSION});
    return done ? exit_code::done : report_failure(done.error());
}

}  // namespace cli
