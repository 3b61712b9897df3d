#include "agent/service/exposure_tasks.hpp"

#include "agent/reconcile/run.hpp"
#include "crypto/digest.hpp"
#include "policy/observed.hpp"

#include <algorithm>
#include <cstdint>

namespace service {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest = std::chrono::seconds(1);  // when a plan is due now but does nothing
constexpr milliseconds unknown_rests = std::chrono::hours(1);

// Longer than any single wait in a step without hooks: broker verification, requests, keys, disk.
constexpr std::chrono::minutes step_limit{10};

std::chrono::seconds longest_hooks(const policy::desired_state& desired, const std::string& exposure)
{
    std::chrono::seconds longest{0};
    for (const auto& e : desired.exposures) {
        if (e.name != exposure) continue;
        for (const auto& user : e.users) {
            std::chrono::seconds all{0};
            for (const auto& hook : user.hooks)
                all += hook.timeout;
            longest = std::max(longest, all);
        }
    }
    return longest;
}

bool is_due(const policy::user_status& s)
{
    return s.state != policy::user_state::valid || s.deploy == policy::deploy_state::pending ||
           s.deploy == policy::deploy_state::failed;
}

}  // namespace

milliseconds wait_after(const reconcile::pass_outcome& outcome,
                        const std::optional<policy::failure_memory>& exposure_failure,
                        policy::duration until_next, policy::instant now)
{
    milliseconds wait = until_next;
    const auto at_latest = [&](policy::instant at) {
        wait = std::min(wait, std::max<milliseconds>(at - now, shortest));
    };
    at_latest(outcome.plan.wake_at);
    if (exposure_failure && exposure_failure->next_attempt) at_latest(*exposure_failure->next_attempt);
    return outcome.soon ? std::min(wait, *outcome.soon) : wait;
}

milliseconds start_delay(const status_view& view, const std::string& seed)
{
    if (std::ranges::any_of(view.users, is_due)) return milliseconds(0);
    const auto print = crypto::sha256_hex(seed);
    const auto share = std::stoull(print.substr(0, 8), nullptr, 16);
    return milliseconds(share % static_cast<std::uint64_t>(start_spread.count()));
}

struct exposure_tasks::task {
    task(exposure_tasks& all, const std::string& exposure)
        : name(exposure),
          last_pass(all.app_.clock().now()),
          passes(all.app_.state(), exposure, all.on_step_),
          again(all.group_, all.timers_, "exposure " + exposure, [&all, this] { return all.pass(*this); })
    {
    }

    std::string name;
    policy::instant last_pass;
    reconcile::exposure_pass passes;
    periodic_task again;
    bool followed = false;
    bool observed = false;
};

exposure_tasks::exposure_tasks(application& app, task_group& group, timers& t,
                               reconcile::step_listener on_step, pass_listener on_pass)
    : app_(app), group_(group), timers_(t), on_step_(std::move(on_step)), on_pass_(std::move(on_pass))
{
}

exposure_tasks::~exposure_tasks() = default;

exposure_tasks::task& exposure_tasks::place_of(const std::string& exposure)
{
    auto& place = tasks_[exposure];
    if (!place) place = std::make_unique<task>(*this, exposure);
    return *place;
}

void exposure_tasks::follow(milliseconds delay)
{
    for (const auto& name : reconcile::all_exposures(app_.state())) {
        auto& place = place_of(name);
        if (std::exchange(place.followed, true)) continue;
        place.again.start(delay);
    }
}

void exposure_tasks::wake(const std::set<std::string>& exposures)
{
    for (auto& [name, each] : tasks_)
        if (exposures.empty() || exposures.contains(name)) each->again.wake();
}

void exposure_tasks::progress(const std::string& exposure)
{
    passes_.progress(exposure, std::chrono::steady_clock::now());
}

bool exposure_tasks::stuck() const
{
    return passes_.stuck(std::chrono::steady_clock::now());
}

bool exposure_tasks::observed() const
{
    return std::ranges::all_of(
        tasks_, [](const auto& each) { return each.second->observed || !each.second->followed; });
}

bool exposure_tasks::idle() const
{
    return passes_.idle();
}

// An exposure that is no longer known stays idle: its task is kept, so that there is only one per name.
io::awaitable<milliseconds> exposure_tasks::pass(task& t)
{
    if (!reconcile::all_exposures(app_.state()).contains(t.name)) {
        t.observed = true;
        co_return unknown_rests;
    }
    reconcile::pass_outcome outcome;
    std::chrono::steady_clock::time_point began;
    {
        auto held = co_await app_.state().take(t.name);
        if (group_.stopping()) co_return shortest;
        began = std::chrono::steady_clock::now();
        const auto desired = app_.state().desired_for(t.name);
        const progress_watch::mark here(passes_, t.name, step_limit + longest_hooks(*desired, t.name), began);
        const auto previous = std::exchange(t.last_pass, app_.clock().now());
        const reconcile::pass_options options{.previous = previous};
        outcome = co_await t.passes.run(held, options);
        t.observed = true;
    }
    const auto& exposures = app_.state().stored().exposures;
    const auto record = exposures.find(t.name);
    const auto failure = record == exposures.end() ? std::nullopt : record->second.failure;
    const auto now = app_.clock().now();
    const auto next =
        policy::next_turn(app_.state().stored().owner, t.name, app_.desired().reconcile.interval, now);
    const auto wait = wait_after(outcome, failure, next - now, now);
    co_await on_pass_(t.name, std::chrono::steady_clock::now() - began);
    co_return wait;
}

}  // namespace service
