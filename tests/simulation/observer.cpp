#include "tests/simulation/observer.hpp"

#include "agent/reconcile/execute.hpp"

#include <utility>

namespace simulation {

observer*& the_observer()
{
    static observer* one = nullptr;
    return one;
}

void observer::planned(const policy::desired_state& desired, const policy::observed_state& observed,
                       const policy::stored_state& stored, policy::instant now,
                       const policy::plan_result& plan)
{
    for (const auto* decided : {&plan.users, &plan.exposures, &plan.later})
        for (const auto& each : *decided)
            ++rules_[each.why];
    for (const auto& act : plan.actions)
        ++rules_[act.why];
    for (const auto& [name, seen] : observed.exposures)
        if (seen.error) ++errors_[seen.error->code];
    if (on_plan) on_plan(desired, stored, now, plan);
}

void observer::began(const policy::action& act)
{
    if (on_any_step) on_any_step(act);
    if (on_step) on_step(act);
}

void observer::performed(const policy::action& act, const policy::result<void>& outcome)
{
    ++steps_[act.kind][outcome ? "done" : policy::word_of(outcome.error().code)];
    if (!outcome) ++errors_[outcome.error().code];
}

std::map<std::string, std::uint64_t> observer::counted() const
{
    std::map<std::string, std::uint64_t> all;
    for (const auto& [why, times] : rules_)
        all[std::string("rule ") + policy::word_of(why)] = times;
    for (const auto& [code, times] : errors_)
        all[std::string("error ") + policy::word_of(code)] = times;
    for (const auto& [kind, outcomes] : steps_)
        for (const auto& [outcome, times] : outcomes) {
            const auto action = std::string("action ") + policy::word_of(kind);
            all[action] += times;
            all[action + ": " + outcome] = times;
            if (outcome != "done") all[action + ": fails"] += times;
        }
    return all;
}

std::map<std::string, std::uint64_t> observer::reachable()
{
    std::map<std::string, std::uint64_t> all;
    for (const auto* word : policy::words_of<policy::reason>)
        all[std::string("rule ") + word] = 0;
    for (const auto* word : policy::words_of<policy::errc>)
        all[std::string("error ") + word] = 0;
    for (const auto* word : policy::words_of<policy::action_kind>)
        for (const auto* how : {"", ": done", ": fails"})
            all[std::string("action ") + word + how] = 0;
    return all;
}

}  // namespace simulation

// ---- in place of the wrapped functions; their names are the mangled ones of CMakeLists.txt

#define PLAN                                                                                           \
    "_ZN6policy4planERKNS_13desired_stateERKNS_14observed_stateERKNS_12stored_stateENSt6chrono10time_" \
    "pointINS9_3_"                                                                                     \
    "V212system_clockENS9_8durationIlSt5ratioILl1ELl1EEEEEENS_12plan_optionsE"
#define PERFORM "_ZN9reconcile8executor7performEN6policy6actionE"
#define RUN_HOOKS                                                                          \
    "_ZN9reconcile9run_hooksERNS_5stateERNS0_4holdESt6vectorIN6policy6actionESaIS6_EENS5_" \
    "6originESt8functionIFN5"                                                              \
    "boost4asio9awaitableIvNSC_15any_io_executorEEERKS2_RKS6_RKNSB_6system6resultIvNS5_7failureEEEEE"

namespace simulation::wrapped {

policy::plan_result real_plan(const policy::desired_state&, const policy::observed_state&,
                              const policy::stored_state&, policy::instant,
                              policy::plan_options) asm("__real_" PLAN);
[[gnu::used]] policy::plan_result observed_plan(const policy::desired_state&, const policy::observed_state&,
                                                const policy::stored_state&, policy::instant,
                                                policy::plan_options) asm("__wrap_" PLAN);
io::task<void> real_perform(reconcile::executor*, policy::action) asm("__real_" PERFORM);
[[gnu::used]] io::task<void> observed_perform(reconcile::executor*, policy::action) asm("__wrap_" PERFORM);
io::awaitable<void> real_run_hooks(reconcile::state&, reconcile::state::hold&, std::vector<policy::action>,
                                   policy::origin, reconcile::hooks_listener) asm("__real_" RUN_HOOKS);
[[gnu::used]] io::awaitable<void> observed_run_hooks(reconcile::state&, reconcile::state::hold&,
                                                     std::vector<policy::action>, policy::origin,
                                                     reconcile::hooks_listener) asm("__wrap_" RUN_HOOKS);

policy::plan_result observed_plan(const policy::desired_state& desired,
                                  const policy::observed_state& observed, const policy::stored_state& stored,
                                  policy::instant now, policy::plan_options options)
{
    auto plan = real_plan(desired, observed, stored, now, options);
    if (auto* const one = simulation::the_observer()) one->planned(desired, observed, stored, now, plan);
    return plan;
}

// Not in the wrapper itself: g++ 12 gives the parts of a coroutine invalid names if it has an assembler name.
io::task<void> observe(reconcile::executor* executor, policy::action act)
{
    if (auto* const one = simulation::the_observer()) one->began(act);
    auto work = real_perform(executor, act);
    const auto outcome = co_await std::move(work);
    if (auto* const one = simulation::the_observer()) one->performed(act, outcome);
    co_return outcome;
}

io::task<void> observed_perform(reconcile::executor* executor, policy::action act)
{
    return observe(executor, std::move(act));
}

io::awaitable<void> observed_run_hooks(reconcile::state& s, reconcile::state::hold& held,
                                       std::vector<policy::action> steps, policy::origin from,
                                       reconcile::hooks_listener ended)
{
    if (auto* const one = simulation::the_observer())
        for (const auto& act : steps)
            one->began(act);
    reconcile::hooks_listener both = [ended = std::move(ended)](const reconcile::state::hold& turn,
                                                                const policy::action& act,
                                                                const policy::result<void>& outcome) {
        if (auto* const one = simulation::the_observer()) one->performed(act, outcome);
        return ended(turn, act, outcome);
    };
    return real_run_hooks(s, held, std::move(steps), std::move(from), std::move(both));
}

}  // namespace simulation::wrapped
