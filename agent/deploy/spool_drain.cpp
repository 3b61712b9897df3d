#include "agent/deploy/spool_drain.hpp"

#include <algorithm>
#include <filesystem>

namespace deploy {
namespace {

constexpr std::size_t most_told = 20;  // of what was thrown away

void tell(std::vector<std::string>& sentences, std::string sentence)
{
    if (sentences.size() < most_told) sentences.push_back(std::move(sentence));
    if (sentences.size() == most_told) sentences.push_back("and more");
}

}  // namespace

std::optional<hook_run> find_hooks(const policy::desired_state& desired, const policy::user_name& name)
{
    if (name.exposure.empty()) {
        const auto found =
            std::ranges::find(desired.credentials, name.user, &policy::desired_credential::name);
        if (found == desired.credentials.end()) return {};
        return hook_run{.name = name,
                        .hooks = found->hooks,
                        .directory = std::filesystem::path(found->file).parent_path().string(),
                        .generation = {},
                        .not_after = {}};
    }
    const auto exposure =
        std::ranges::find(desired.exposures, name.exposure, &policy::desired_exposure::name);
    if (exposure == desired.exposures.end()) return {};
    const auto user = std::ranges::find(exposure->users, name.user, &policy::desired_user::name);
    if (user == exposure->users.end()) return {};
    return hook_run{.name = name,
                    .hooks = user->hooks,
                    .directory = user->output.directory,
                    .generation = {},
                    .not_after = {},
                    .topic = exposure->topic,
                    .consumer_group = user->consumer_group};
}

io::task<drain_report> drain_spool(const spool_reader& spool, const policy::desired_state& desired,
                                   hooks& runner)
{
    const auto names = spool.names();
    if (!names) co_return names.error();
    drain_report report;
    for (const auto& name : *names) {
        const auto taken = spool.take(name);
        if (!taken && taken.error().code == policy::errc::not_found) continue;
        if (!taken) {
            tell(report.thrown_away, taken.error().context);
            continue;
        }
        const auto& [user, request] = *taken;
        auto run = find_hooks(desired, user);
        if (!run) {
            tell(report.thrown_away, "spool entry \"" + name +
                                         "\" was thrown away: the configuration does not name " +
                                         user.text());
            continue;
        }
        run->generation = request.generation;
        run->not_after = request.not_after;
        run->reason = request.reason;
        auto outcome = co_await runner.run(std::move(*run));
        if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();

        spool_answer answer{.ticket = request.ticket, .failure = {}};
        if (!outcome) answer.failure = outcome.error().context;
        if (const auto told = spool.answer(user, answer); outcome && !told) outcome = told;
        if (outcome)
            report.done.push_back(user);
        else
            report.failed.push_back(outcome.error().context);
    }
    co_return report;
}

}  // namespace deploy
