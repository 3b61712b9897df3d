#include "agent/reconcile/pass.hpp"

#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/reconcile/look.hpp"
#include "policy/about.hpp"
#include "policy/backoff.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace reconcile {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t parallel_users = 64;
constexpr auto first_poll = 100ms;  // IN PROGRESS: the first look again, then rarer
constexpr auto last_poll = std::chrono::milliseconds(policy::limits::poll_last);
constexpr auto of_look = "look";         // what an exposure's failure is remembered of, or its address
constexpr int rounds_without_look = 32;  // a plan that never ends is a bug, not a busy loop

std::optional<policy::instant> expiry_of(const policy::stored_user& user)
{
    const auto* current = user.find(user.current);
    if (!current || !current->certificate) return std::nullopt;
    return current->certificate->expiry();
}

bool is_hooks(const policy::action& a)
{
    return a.kind == policy::action_kind::deploy;
}

bool is_of_proof(policy::errc code)
{
    return code == policy::errc::probe_refused || code == policy::errc::probe_unreachable;
}

io::log_event event_of(const policy::action& a, const policy::failure& failed)
{
    if (is_hooks(a)) return io::events::deploy_failed;
    return is_of_proof(failed.code) ? io::events::proof_failed : io::events::request_failed;
}

std::optional<policy::failure_memory>& memory_of(policy::stored_user& user, const policy::action& a)
{
    if (is_hooks(a)) return user.deploy_failure;
    return a.kind == policy::action_kind::retire || a.kind == policy::action_kind::retire_surplus
               ? user.clear_failure
               : user.failure;
}

// True when the kept verdict changed.
bool update_verdict(std::optional<policy::verdict>& kept, bool blocked, policy::reason why,
                    const std::string& sentence, policy::instant now)
{
    if (!blocked) {
        const bool was = kept.has_value();
        kept.reset();
        return was;
    }
    if (kept && kept->reason == policy::word_of(why) && kept->sentence == sentence) return false;
    kept = policy::verdict{.reason = policy::word_of(why), .sentence = sentence, .since = now};
    return true;
}

}  // namespace

exposure_pass::exposure_pass(world& w, std::string exposure, step_listener listener)
    : world_(w), executor_(w), exposure_(std::move(exposure)), listener_(std::move(listener))
{
}

io::awaitable<pass_outcome> exposure_pass::run(pass_options options)
{
    pass_outcome outcome;
    co_await world_.inspect_outputs(exposure_);
    co_await follow_entries();
    outcome.observe_failed = co_await look_again(options);

    bool onboarding = false;
    outcome.plan = plan(options);
    for (int round = 0; round < rounds_without_look && !onboarding; ++round) {
        auto steps = mine(outcome.plan.actions, options);
        if (steps.empty()) break;
        outcome.acted = true;
        onboarding =
            std::ranges::any_of(steps, [](const auto& a) { return a.kind == policy::action_kind::onboard; });
        co_await perform_all(std::move(steps), options);
        outcome.plan = plan(options);
    }
    co_await keep_verdicts(outcome.plan);
    if (outcome.acted) poll_ = 0ms;
    outcome.soon = next_look(outcome, onboarding, options);
    co_return outcome;
}

policy::plan_result exposure_pass::plan(const pass_options& options) const
{
    auto how = options.plan;
    how.pace_of = exposure_;  // others have their own passes
    return policy::plan(*world_.desired_for(exposure_), world_.observed(), world_.stored(),
                        world_.outside().clock.now(), how);
}

// A user that left the file keeps what its last entry said.
io::awaitable<void> exposure_pass::follow_entries()
{
    const auto* exposure = world_.exposure(exposure_);
    if (!exposure) co_return;
    std::vector<policy::user_name> changed;
    for (const auto& want : exposure->users) {
        const auto found = world_.stored().users.find({exposure_, want.name});
        if (found == world_.stored().users.end() || !found->second.unreadable.empty()) continue;
        auto& entry = found->second.entry;
        if (entry.retire_after == want.rotation.retire_after && entry.hooks == want.hooks) continue;
        entry.retire_after = want.rotation.retire_after;
        entry.hooks = want.hooks;
        changed.push_back(found->first);
    }
    for (const auto& name : changed)
        if (auto saved = co_await world_.save(name); !saved)
            io::log(io::severity::error, saved.error().context);
}

io::awaitable<std::optional<policy::failure>> exposure_pass::look_again(const pass_options& options)
{
    const auto* exposure = world_.exposure(exposure_);
    if (!exposure) co_return std::nullopt;
    const auto wanted = *exposure;
    auto seen = co_await look(world_.outside().api, wanted, known_ids(world_.stored(), wanted),
                              world_.outside().clock.now());
    world_.observed().clock_ahead = world_.outside().api.clock_ahead(address_of(wanted));
    const auto failed = seen.error;
    const bool has_instance = !seen.instances.empty();
    world_.observed().exposures[exposure_] = std::move(seen);
    if (failed) {
        const std::string what = of_look;
        co_await remember_exposure(*failed, what, options);
    } else {
        look_attempts_ = 0;
        co_await forget_failure(has_instance);
    }
    co_return failed;
}

io::awaitable<void> exposure_pass::remember_exposure(policy::failure failed, std::string what,
                                                     pass_options options)
{
    if (failed.code == policy::errc::stopping) co_return;
    ++look_attempts_;
    auto& record = world_.exposure_record(*world_.exposure(exposure_));
    const bool news = !record.failure || record.failure->sentence != failed.context;
    record.failure =
        policy::remember(record.failure, failed, what, std::nullopt, world_.outside().clock.now());
    // That a person has to log in is said once for all exposures, by whoever watches the login.
    if (news && !options.interactive && failed.code != policy::errc::login_required)
        io::log(io::severity::warning, io::events::request_failed, {exposure_}, failed.context);
    if (auto saved = co_await world_.save_exposure(exposure_); !saved)
        io::log(io::severity::error, saved.error().context);
}

// A look that succeeds says nothing of an instance that could not be made: only finding one does.
io::awaitable<void> exposure_pass::forget_failure(bool has_instance)
{
    const auto record = world_.stored().exposures.find(exposure_);
    if (record == world_.stored().exposures.end() || !record->second.failure) co_return;
    if (!has_instance && record->second.failure->wanted != of_look) co_return;
    const bool was_said = record->second.failure->code != policy::errc::login_required;
    record->second.failure.reset();
    if (was_said)
        io::log(io::severity::info, io::events::recovered, {exposure_},
                "exposure " + exposure_ + " answers again");
    if (auto saved = co_await world_.save_exposure(exposure_); !saved)
        io::log(io::severity::error, saved.error().context);
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

// Exposure-wide steps first; then users side by side, each user's own steps one after the other.
io::awaitable<void> exposure_pass::perform_all(std::vector<policy::action> actions, pass_options options)
{
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
        const auto outcome = co_await executor_.perform(step);
        if (listener_) listener_(step, &outcome);
        if (outcome) continue;
        co_await remember_failure(step, outcome.error(), options);
        co_return;
    }
}

io::awaitable<void> exposure_pass::remember_failure(policy::action step, policy::failure failed,
                                                    pass_options options)
{
    if (failed.code == policy::errc::stopping) co_return;
    if (step.name.user.empty()) {
        // as policy::plan asks for it, before it onboards again
        const auto where = world_.exposure_record(*world_.exposure(exposure_)).where.base_url;
        co_await remember_exposure(std::move(failed), where, options);
        co_return;
    }
    auto& user = world_.user(step.name);
    const auto* exposure = world_.exposure(exposure_);
    const auto* want = world_.wanted(step.name);
    const auto print = exposure && want ? policy::entry_fingerprint(*exposure, *want) : "";
    auto& memory = memory_of(user, step);
    const bool news = !memory || memory->sentence != failed.context;
    const auto now = world_.outside().clock.now();
    memory = policy::remember(memory, failed, print, expiry_of(user), now);

    const int attempt = policy::is_granting(failed) ? 1 : ++attempts_[step.name];
    const auto soon = policy::soon_again(failed, attempt, now);
    if (options.interactive && soon)
        memory->next_attempt = soon;
    else
        failed_[step.name] = failed.context;
    // who waits is told why when it is for minutes, and everything else at the end
    if (news && (!options.interactive || is_of_proof(failed.code)))
        io::log(io::severity::warning, event_of(step, failed),
                {step.name.exposure, step.name.user, step.generation}, failed.context);
    if (auto saved = co_await world_.save(step.name); !saved)
        io::log(io::severity::error, saved.error().context);
}

// What waits for a person is written down, once, so that `status` can show it without asking anybody; what
// has come to a good end is no failure any more.
io::awaitable<void> exposure_pass::keep_verdict(policy::outlook view)
{
    const auto known = world_.stored().users.find(view.name);
    const auto nothing = [](const policy::stored_user& user) {
        return !user.blocked && !user.failure && !user.deploy_failure && !user.clear_failure;
    };
    if (!view.blocked && (known == world_.stored().users.end() || nothing(known->second))) co_return;
    auto& record = world_.user(view.name);
    if (!record.unreadable.empty()) co_return;
    const auto before = record;
    const bool over = policy::forget_what_is_over(record, view);
    const bool news = update_verdict(record.blocked, view.blocked, view.finding, view.sentence,
                                     world_.outside().clock.now());
    if (!over && !news) co_return;
    if (news && record.blocked)
        io::log(io::severity::warning, io::events::blocked, {exposure_, view.name.user},
                policy::about(view.name, view.sentence));
    const auto saved = co_await world_.save(view.name);
    if (saved) co_return;
    io::log(io::severity::error, saved.error().context);
    // what the disk does not keep is not over: nothing is deleted meanwhile
    auto& kept = world_.user(view.name);
    kept.failure = before.failure;
    kept.deploy_failure = before.deploy_failure;
    kept.clear_failure = before.clear_failure;
}

io::awaitable<void> exposure_pass::keep_verdicts(policy::plan_result plan)
{
    for (const auto& view : plan.users)
        if (view.name.exposure == exposure_ && view.finding != policy::reason::unreachable)
            co_await keep_verdict(view);
    for (const auto& view : plan.exposures) {
        if (view.exposure != exposure_ || view.finding == policy::reason::unreachable) continue;
        const auto kept = world_.stored().exposures.find(exposure_);
        if (!view.blocked && (kept == world_.stored().exposures.end() || !kept->second.blocked)) continue;
        auto& record = world_.exposure_record(*world_.exposure(exposure_));
        if (!record.unreadable.empty() || !update_verdict(record.blocked, view.blocked, view.finding,
                                                          view.sentence, world_.outside().clock.now()))
            continue;
        if (record.blocked)
            io::log(io::severity::error, io::events::incident, {exposure_},
                    policy::about("exposure " + exposure_, view.sentence));
        if (auto saved = co_await world_.save_exposure(exposure_); !saved)
            io::log(io::severity::error, saved.error().context);
    }
}

std::optional<std::chrono::milliseconds> exposure_pass::next_look(const pass_outcome& outcome,
                                                                  bool onboarding,
                                                                  const pass_options& options)
{
    const auto now = world_.outside().clock.now();
    std::optional<std::chrono::milliseconds> soon;
    const auto at_latest = [&](std::chrono::milliseconds wait) {
        soon = std::min(soon.value_or(wait), wait);
    };
    if (outcome.plan.waits_for_platform || onboarding) {
        poll_ = poll_ == 0ms ? first_poll : std::min(poll_ * 3 / 2, last_poll);
        at_latest(poll_);
    }
    if (!options.interactive) return soon;

    const auto wait = policy::short_wait(look_attempts_);
    const auto& failed = outcome.observe_failed;
    if (wait && (onboarding || (failed && failed->kind == policy::retry::later)))
        at_latest(std::max(*wait, failed ? failed->retry_after.value_or(0s) : policy::duration(0)));
    for (const auto& [name, user] : world_.stored().users) {
        if (name.exposure != exposure_ || failed_.contains(name) ||
            (!options.only.empty() && !options.only.contains(name)))
            continue;
        for (const auto* memory : {&user.failure, &user.deploy_failure, &user.clear_failure})
            if (*memory && (*memory)->next_attempt)
                at_latest(std::max<std::chrono::milliseconds>(*(*memory)->next_attempt - now, first_poll));
    }
    return soon;
}

}  // namespace reconcile
