#include "agent/reconcile/pass.hpp"

#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/observe.hpp"
#include "policy/backoff.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"
#include "policy/naming.hpp"

#include <algorithm>
#include <utility>

namespace reconcile {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t parallel_users = 64;
constexpr auto first_poll = 20ms;  // IN PROGRESS: then twice as long each time
constexpr auto last_poll = std::chrono::milliseconds(policy::limits::poll_last);
constexpr auto of_observation = "look";         // failure->wanted of a failed observation, else the base_url
constexpr int rounds_without_observation = 32;  // a plan that never ends is a bug: do not loop forever

bool is_of_platform(policy::errc code)
{
    using policy::errc;
    return code == errc::throttled || code == errc::unavailable || code == errc::no_answer ||
           code == errc::not_connected;
}

bool is_of_verification(policy::errc code)
{
    return code == policy::errc::probe_refused || code == policy::errc::probe_unreachable;
}

io::log_event event_of(const policy::action& a, const policy::failure& failed)
{
    if (a.kind == policy::action_kind::deploy) return io::events::deploy_failed;
    return is_of_verification(failed.code) ? io::events::proof_failed : io::events::request_failed;
}

bool is_blocked(const policy::user_event& what)
{
    return std::holds_alternative<policy::event::blocked>(what);
}

}  // namespace

policy::user_event failure_of(state& s, const policy::action& step, const policy::failure& failed)
{
    const auto* exposure = s.exposure(step.name.exposure);
    // as in the plan: a host being decommissioned wants no users
    const auto* want = s.stored().leaving ? nullptr : s.wanted(step.name);
    return policy::event::failed{
        .of = policy::attempt_of(step.kind),
        .what = failed,
        .wanted = exposure && want ? policy::entry_fingerprint(*exposure, *want) : ""};
}

// Sets held_ for the duration of a pass.
class exposure_pass::turn_of_pass {
public:
    turn_of_pass(state::hold*& known, state::hold& held) : known_(known) { known_ = &held; }
    ~turn_of_pass() { known_ = nullptr; }
    turn_of_pass(const turn_of_pass&) = delete;

private:
    state::hold*& known_;
};

exposure_pass::exposure_pass(state& s, std::string exposure, step_listener listener)
    : state_(s), exposure_(std::move(exposure)), listener_(std::move(listener))
{
}

io::awaitable<pass_outcome> exposure_pass::run(state::hold& held, pass_options options)
{
    const turn_of_pass turn(held_, held);
    pass_outcome outcome;
    listed_at_.reset();
    platform_failed_ = false;
    interrupted_ = false;
    if (policy::is_decommissioned(state_.stored())) {
        outcome.plan = plan(options);
        co_return outcome;
    }
    co_await state_.inspect_outputs(exposure_);
    co_await follow_entries();
    outcome.observe_failed = co_await observe_exposure(options);

    bool onboarding = false;
    planned_at_ = state_.outside().clock.now();
    outcome.plan = plan(options);
    for (int round = 0; round < rounds_without_observation && !onboarding; ++round) {
        auto steps = mine(outcome.plan.actions, options);
        if (steps.empty()) break;
        outcome.acted = true;
        onboarding =
            std::ranges::any_of(steps, [](const auto& a) { return a.kind == policy::action_kind::onboard; });
        co_await perform_all(std::move(steps), options);
        planned_at_ = state_.outside().clock.now();
        outcome.plan = plan(options);
        // on a stop request, the same steps would be interrupted again
        if (std::exchange(interrupted_, false) && !co_await state_.outside().clock.sleep_for(0ms)) break;
    }
    co_await keep_conclusions(outcome.plan);
    co_await remember_list();
    if (!outcome.observe_failed && state_.exposure(exposure_)) co_await forget_failure();
    if (outcome.acted) poll_ = 0ms;
    outcome.soon = next_pass(outcome, onboarding, options);
    co_return outcome;
}

policy::plan_result exposure_pass::plan(const pass_options& options) const
{
    auto how = options.plan;
    how.pace_of = exposure_;  // other exposures have their own passes
    return policy::plan(*state_.desired_for(exposure_), state_.observed(), state_.stored(),
                        state_.outside().clock.now(), how);
}

// A user removed from the configuration keeps the settings of its last entry.
io::awaitable<void> exposure_pass::follow_entries()
{
    const auto* exposure = state_.exposure(exposure_);
    if (!exposure) co_return;
    std::map<policy::user_name, policy::user_event> changed;
    for (const auto& want : exposure->users) {
        const auto found = state_.stored().users.find({exposure_, want.name});
        if (found == state_.stored().users.end() || !found->second.unreadable.empty()) continue;
        const auto& entry = found->second.entry;
        if (entry.retire_after == want.rotation.retire_after && entry.hooks == want.hooks) continue;
        changed.emplace(found->first, policy::event::entry_changed{want.rotation.retire_after, want.hooks});
    }
    for (auto& [name, what] : changed)
        if (auto saved = co_await state_.record(*held_, name, std::move(what)); !saved)
            io::log(io::severity::error, saved.error().context);
}

io::awaitable<std::optional<policy::failure>> exposure_pass::observe_exposure(const pass_options& options)
{
    const auto* exposure = state_.exposure(exposure_);
    if (!exposure) {
        note_clocks(state_, exposure_);
        co_return std::nullopt;
    }
    const auto wanted = *exposure;
    const auto now = state_.outside().clock.now();
    const auto desired = state_.desired_for(exposure_);
    auto asked = policy::inquiry_of(*desired, wanted, state_.stored(), now, options.previous);
    asked.list = asked.list || options.plan.accept_loss;
    const auto owner = state_.stored().owner;
    auto seen = co_await observe(state_.outside().api, wanted, asked, owner, now);
    note_clocks(state_, exposure_);
    const auto failed = seen.error;
    has_instance_ = !seen.instances.empty();
    for (const auto& id : seen.inconsistent)
        io::log(io::severity::warning, io::events::request_failed, {exposure_},
                "exposure " + exposure_ + ": the platform lists user " + id +
                    " but answers 404 when it is read; nothing was changed");
    state_.observed().exposures[exposure_] = std::move(seen);
    if (failed) {
        const std::string what = of_observation;
        co_await remember_exposure(*failed, what, options);
    } else {
        co_await keep_observations();
    }
    if (!failed && has_instance_ && asked.due) listed_at_ = now;
    co_return failed;
}

io::awaitable<void> exposure_pass::keep_observations()
{
    for (auto& [name, events] : policy::observations(state_.stored(), state_.observed(), exposure_)) {
        for (const auto& what : events)
            if (const auto line =
                    policy::describe(state_.user(*held_, name), what, state_.outside().clock.now()))
                io::log(io::severity::warning, io::events::noted,
                        {name.exposure, name.user, line->generation}, name.text() + ": " + line->detail);
        if (auto saved = co_await state_.record(*held_, name, std::move(events)); !saved)
            io::log(io::severity::error, saved.error().context);
    }
}

io::awaitable<void> exposure_pass::remember_exposure(policy::failure failed, std::string what,
                                                     pass_options options)
{
    if (failed.code == policy::errc::stopping) co_return;
    ++failed_observations_;
    const auto& exposure = *state_.exposure(exposure_);
    const auto& kept = state_.exposure_record(*held_, exposure).failure;
    const bool news = !kept || kept->sentence != failed.context;
    // The login watch reports once, for all exposures, that a person has to log in.
    if (news && options.logs_failures && failed.code != policy::errc::login_required)
        io::log(io::severity::warning, io::events::request_failed, {exposure_}, failed.context);
    policy::exposure_event happened = policy::event::exposure_failed{failed, what};
    if (auto saved = co_await state_.record(*held_, exposure, std::move(happened)); !saved)
        io::log(io::severity::error, saved.error().context);
}

// Saves the next pass, in any process, from listing again. Called last in the pass: what the list showed has
// been acted on.
io::awaitable<void> exposure_pass::remember_list()
{
    if (!listed_at_ || !state_.exposure(exposure_)) co_return;
    const auto& exposure = *state_.exposure(exposure_);
    if (!state_.exposure_record(*held_, exposure).unreadable.empty()) co_return;
    policy::exposure_event listed = policy::event::users_listed{*listed_at_};
    if (auto saved = co_await state_.record(*held_, exposure, std::move(listed)); !saved)
        io::log(io::severity::error, saved.error().context);
}

// One successful GET does not end the back-off, a whole pass without a platform failure does. Until then the
// failure count stays, and failed steps keep their own retry times. A successful observation does not clear
// a failed onboarding: only finding the instance does.
io::awaitable<void> exposure_pass::forget_failure()
{
    const auto record = state_.stored().exposures.find(exposure_);
    const bool kept = record != state_.stored().exposures.end() && record->second.failure;
    if (kept && platform_failed_) {
        if (record->second.failure->wanted != of_observation) co_return;
        policy::exposure_event later = policy::event::retry_exposure{};
        if (auto saved = co_await state_.record(*held_, *state_.exposure(exposure_), std::move(later));
            !saved)
            io::log(io::severity::error, saved.error().context);
        co_return;
    }
    if (!platform_failed_) failed_observations_ = 0;
    if (!kept || (!has_instance_ && record->second.failure->wanted != of_observation)) co_return;
    const bool was_said = record->second.failure->code != policy::errc::login_required;
    policy::exposure_event over = policy::event::exposure_recovered{};
    auto saved = co_await state_.record(*held_, *state_.exposure(exposure_), std::move(over));
    if (!saved)
        io::log(io::severity::error, saved.error().context);
    else if (was_said)
        io::log(io::severity::info, io::events::recovered, {exposure_},
                "exposure " + exposure_ + ": reachable again");
}

std::vector<policy::action> exposure_pass::mine(std::vector<policy::action> actions,
                                                const pass_options& options) const
{
    std::erase_if(actions, [&](const policy::action& a) {
        if (a.name.exposure != exposure_) return true;
        return !a.name.user.empty() && !options.only.empty() && !options.only.contains(a.name);
    });
    return actions;
}

// Exposure-wide steps first, then users in parallel, each user's own steps in order. Hooks run when nothing
// else is left to do.
io::awaitable<void> exposure_pass::perform_all(std::vector<policy::action> actions, pass_options options)
{
    const auto hooks = std::stable_partition(
        actions.begin(), actions.end(), [](const auto& a) { return a.kind != policy::action_kind::deploy; });
    if (hooks == actions.begin()) co_return co_await perform_hooks(std::move(actions), options);
    actions.erase(hooks, actions.end());
    std::map<std::string, std::vector<policy::action>> by_user;
    for (auto& a : actions)
        by_user[a.name.user].push_back(std::move(a));
    if (auto wide = by_user.extract(""); !wide.empty())
        co_await perform_in_order(std::move(wide.mapped()), options);

    std::vector<std::vector<policy::action>> users;
    for (auto& [name, steps] : by_user)
        users.push_back(std::move(steps));
    co_await io::for_each_parallel(parallel_users, users.size(), [&](std::size_t i) -> io::awaitable<void> {
        co_await perform_in_order(std::move(users[i]), options);
    });
}

io::awaitable<void> exposure_pass::perform_in_order(std::vector<policy::action> steps, pass_options options)
{
    for (const auto& step : steps) {
        if (listener_) listener_(step, nullptr);
        executor executor(state_, *held_, options.from);
        const auto outcome = co_await executor.perform(step);
        if (listener_) listener_(step, &outcome);
        if (outcome) continue;
        co_await remember_failure(*held_, step, outcome.error(), options);
        co_return;
    }
}

io::awaitable<void> exposure_pass::perform_hooks(std::vector<policy::action> steps, pass_options options)
{
    if (listener_)
        for (const auto& step : steps)
            if (!state_.runs_hooks(step.name)) listener_(step, nullptr);
    hooks_listener ended = [&](const state::hold& held, const policy::action& step,
                               const policy::result<void>& outcome) -> io::awaitable<void> {
        if (listener_) listener_(step, &outcome);
        if (!outcome) co_await remember_failure(held, step, outcome.error(), options);
    };
    co_await run_hooks(state_, *held_, std::move(steps), options.from, std::move(ended));
}

io::awaitable<void> exposure_pass::remember_failure(const state::hold& held, policy::action step,
                                                    policy::failure failed, pass_options options)
{
    if (failed.code == policy::errc::stopping) {
        interrupted_ = true;
        co_return;
    }
    platform_failed_ = platform_failed_ || is_of_platform(failed.code);
    if (step.name.user.empty()) {
        // policy::plan compares this address before it onboards again
        const auto where = state_.exposure_record(held, *state_.exposure(exposure_)).where.base_url;
        co_await remember_exposure(std::move(failed), where, options);
        co_return;
    }
    auto happened = failure_of(state_, step, failed);
    const auto line = policy::describe(state_.user(held, step.name), happened, state_.outside().clock.now());
    const int attempt = policy::only_waits(failed.code, failed.kind) ? 1 : ++attempts_[step.name];
    const auto soon = policy::soon_again(failed, attempt, state_.outside().clock.now());
    if (options.interactive && soon)
        std::get<policy::event::failed>(happened).next_attempt = soon;
    else
        failed_[step.name] = failed.context;
    // a broker's refusal may be waited on for minutes
    if (line && (options.logs_failures || is_of_verification(failed.code)))
        io::log(io::severity::warning, event_of(step, failed),
                {step.name.exposure, step.name.user, step.generation}, failed.context);
    if (auto saved = co_await state_.record(held, step.name, std::move(happened), options.from); !saved)
        io::log(io::severity::error, saved.error().context);
    failed_attempts_[step.name] = policy::failed_attempts(state_.user(held, step.name));
}

// Stores, once, what is blocked until a person acts, so that `status` can show it without a request; clears
// the failures of what has since succeeded.
io::awaitable<void> exposure_pass::keep_conclusions(policy::decision view)
{
    const auto known = state_.stored().users.find(view.name);
    if (known == state_.stored().users.end() && !view.blocked) co_return;
    const auto& user = state_.user(*held_, view.name);
    auto events = policy::conclusions(user, view);
    if (events.empty()) co_return;
    const auto sentence = policy::about(view.name, view.sentence);
    // blocked by a failure: that was logged when it happened
    const bool logged = std::ranges::any_of(policy::failures_in(user),
                                            [&](const auto* failed) { return failed->sentence == sentence; });
    if (is_blocked(events.back()) && !logged)
        io::log(io::severity::warning, io::events::blocked, {exposure_, view.name.user}, sentence);
    if (auto saved = co_await state_.record(*held_, view.name, std::move(events)); !saved)
        io::log(io::severity::error, saved.error().context);
}

io::awaitable<void> exposure_pass::keep_conclusions(policy::plan_result plan)
{
    for (const auto& view : plan.users)
        if (view.name.exposure == exposure_ && view.why != policy::reason::unreachable)
            co_await keep_conclusions(view);
    for (const auto& view : plan.exposures) {
        if (view.name.exposure != exposure_ || view.why == policy::reason::unreachable) continue;
        const auto& exposure = *state_.exposure(exposure_);
        for (auto& what : policy::conclusions(state_.exposure_record(*held_, exposure), view)) {
            if (std::holds_alternative<policy::event::blocked>(what))
                io::log(io::severity::error, io::events::incident, {exposure_},
                        policy::about("exposure " + exposure_, view.sentence));
            if (auto saved = co_await state_.record(*held_, exposure, std::move(what)); !saved)
                io::log(io::severity::error, saved.error().context);
        }
    }
}

std::optional<std::chrono::milliseconds> exposure_pass::next_pass(const pass_outcome& outcome,
                                                                  bool onboarding,
                                                                  const pass_options& options)
{
    const auto now = state_.outside().clock.now();
    std::optional<std::chrono::milliseconds> soon;
    const auto at_latest = [&](std::chrono::milliseconds wait) {
        soon = std::min(soon.value_or(wait), wait);
    };
    if (outcome.plan.waits_for_platform || onboarding) {
        poll_ = poll_ == 0ms ? first_poll : std::min(poll_ * 2, last_poll);
        at_latest(poll_);
    }
    if (!options.interactive) return soon;

    const auto wait = policy::short_wait(failed_observations_);
    const auto& failed = outcome.observe_failed;
    if (wait && (onboarding || (failed && failed->kind == policy::retry::later)))
        at_latest(std::max(*wait, failed ? failed->retry_after.value_or(0s) : policy::duration(0)));
    for (const auto& [name, user] : state_.stored().users) {
        if (name.exposure != exposure_ || failed_.contains(name) ||
            (!options.only.empty() && !options.only.contains(name)))
            continue;
        const auto failures = policy::failures_in(user);
        // the schedule may attempt the same step first: its failures count for a waiting command, too
        const int attempts = policy::failed_attempts(user);
        int& known = failed_attempts_.try_emplace(name, attempts).first->second;
        if (attempts > known && !policy::short_wait(attempts_[name] += attempts - known)) {
            failed_[name] = failures.back()->sentence;
            continue;
        }
        known = attempts;
        for (const auto* failed_step : failures)
            // one that was due already is not planned any more: nothing would try it again
            if (failed_step->next_attempt && *failed_step->next_attempt > planned_at_)
                at_latest(std::max<std::chrono::milliseconds>(*failed_step->next_attempt - now, first_poll));
    }
    return soon;
}

}  // namespace reconcile
