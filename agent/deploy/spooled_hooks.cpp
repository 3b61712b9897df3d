#include "agent/deploy/spooled_hooks.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/read_file.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"

#include <algorithm>

namespace deploy {
namespace {

using namespace std::chrono_literals;

constexpr auto first_look = 100ms;
constexpr auto longest_pause = 1000ms;
constexpr auto helper_patience = 2min;  // its start, and the hooks of others before ours
constexpr std::size_t ticket_bytes = 16;

// The helper's own sentences name the subject already.
policy::failure failed(const hook_run& run, const std::string& why)
{
    const auto lead = subject_of(run.name) + ": ";
    return {.code = policy::errc::hook_failed,
            .context = why.starts_with(lead) ? why : lead + why,
            .kind = policy::retry::later};
}

std::chrono::milliseconds patience_for(const hook_run& run)
{
    std::chrono::milliseconds all = helper_patience;
    for (const auto& hook : run.hooks)
        all += hook.timeout;
    return all;
}

}  // namespace

policy::result<void> spooled_hooks::hand_over(const std::string& entry, const spool_request& request) const
{
    const auto text = write_spool_request(request);
    if (!text) return text.error();
    const auto spool = disk::directory::open(directory_ / "spool");
    if (!spool) return spool.error();
    // root's helper has no capability to override modes: it reads as everybody else
    return disk::write_file(*spool, entry, *text, {.mode = 0644});
}

policy::result<std::optional<spool_answer>> spooled_hooks::look(const std::string& entry,
                                                                const std::string& ticket) const
{
    const auto results = disk::directory::open(directory_ / "results");
    if (!results) return results.error();
    const auto text = disk::read_file(*results, entry, spool_file_bytes);
    if (!text) return text.error();
    if (!*text) return std::optional<spool_answer>();
    auto answer = read_spool_answer(**text);
    if (!answer) return answer.error();
    // another ticket: the answer to an earlier request
    return answer->ticket == ticket ? std::optional(std::move(*answer)) : std::nullopt;
}

io::task<void> spooled_hooks::run(hook_run run)
{
    if (run.hooks.empty()) co_return policy::result<void>();
    const auto entry = spool_entry_name(run.name);
    if (!entry) co_return failed(run, "the name is too long for a deploy request: give it a shorter one");
    const spool_request request{.ticket = crypto::random_hex(ticket_bytes),
                                .generation = run.generation,
                                .not_after = run.not_after,
                                .reason = run.reason};
    if (const auto handed = hand_over(*entry, request); !handed)
        co_return failed(run, "the hooks cannot be asked for: " + handed.error().context +
                                  "; is exposure-agent-deploy.path enabled?");

    const auto patience = patience_for(run);
    std::chrono::milliseconds pause = first_look;
    for (std::chrono::milliseconds waited{0}; waited < patience; waited += pause) {
        pause = std::min(longest_pause, pause + waited / 2);
        if (const auto slept = co_await clock_.sleep_for(pause); !slept) co_return slept.error();
        const auto answer = look(*entry, request.ticket);
        if (!answer)
            co_return failed(run, "the answer of the hooks cannot be read: " + answer.error().context);
        if (!*answer) continue;
        if ((*answer)->failure) co_return failed(run, *(*answer)->failure);
        co_return policy::result<void>();
    }
    co_return failed(run,
                     "no answer from exposure-agent-deploy.service within " +
                         policy::format_duration(std::chrono::duration_cast<policy::duration>(patience)) +
                         ": see `systemctl status exposure-agent-deploy.path` and `journalctl -u "
                         "exposure-agent-deploy`");
}

}  // namespace deploy
