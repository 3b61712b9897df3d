#include "agent/reconcile/preview.hpp"

#include "agent/io/async.hpp"
#include "agent/reconcile/observe.hpp"
#include "policy/backoff.hpp"

#include <algorithm>

namespace reconcile {
namespace {

constexpr std::size_t parallel_exposures = 64;

io::awaitable<void> look_everywhere(world& w, preview& into)
{
    const auto exposures = w.desired().exposures;
    co_await io::for_each_parallel(
        parallel_exposures, exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            const auto& exposure = exposures[i];
            const auto now = w.outside().clock.now();
            auto asked = policy::inquiry_of(w.desired(), exposure, w.stored(), now);
            asked.list = asked.others = true;  // unmanaged users are shown as well
            const auto owner = w.stored().owner;
            auto seen = co_await observe(w.outside().api, exposure, asked, owner, now);
            if (seen.error)
                into.unreached.emplace(exposure.name, *seen.error);
            else
                ++into.reach.reached;
            w.observed().exposures[exposure.name] = std::move(seen);
            note_clocks(w, exposure.name);
        });
    into.reach.exposures = into.unreached;
}

// In memory alone: nothing changes on the disk.
io::awaitable<void> assume_observations(world& w)
{
    const auto now = w.outside().clock.now();
    for (const auto& exposure : w.desired().exposures) {
        const auto held = co_await w.take(exposure.name);
        for (const auto& [name, events] : policy::observations(w.stored(), w.observed(), exposure.name))
            for (const auto& what : events)
                w.user(held, name) = policy::apply(w.user(held, name), what, now);
    }
}

// Steps that are bookkeeping for one exposure stand in the way of what comes next: the plan is made as if
// they were done.
io::awaitable<bool> assume_known_instances(world& w, const policy::plan_result& plan)
{
    bool assumed = false;
    for (const auto& a : plan.actions) {
        if (a.kind != policy::action_kind::remember_instance) continue;
        const auto held = co_await w.take(a.name.exposure);
        w.exposure_record(held, *w.exposure(a.name.exposure)).where.instance_id = a.remote_id;
        assumed = true;
    }
    co_return assumed;
}

void add_change(preview& p, const policy::action& a)
{
    const std::string word = policy::contract_word(a);
    const auto same = [&](const policy::decision& c) { return c.name == a.name && c.next == word; };
    if (word.empty() || std::ranges::any_of(p.changes, same)) return;
    p.changes.push_back({.name = a.name, .why = a.why, .sentence = a.sentence, .next = word});
}

// The instance has to be made first: the users that wait for it will be made right after.
void add_after_onboarding(preview& p, const world& w)
{
    const auto onboarding = p.changes;
    for (const auto& exposure : w.desired().exposures) {
        const bool first = std::ranges::any_of(onboarding, [&](const policy::decision& c) {
            return c.name.exposure == exposure.name && c.next == "onboard";
        });
        if (!first) continue;
        for (const auto& view : p.plan.users)
            if (view.name.exposure == exposure.name && !view.next.empty() && !view.next_at && !view.blocked)
                p.changes.push_back({.name = view.name,
                                     .why = policy::reason::absent,
                                     .sentence = "no certificate yet",
                                     .next = view.next});
    }
}

}  // namespace

io::awaitable<preview> look_ahead(world& w, policy::plan_options options)
{
    preview p;
    co_await w.inspect_outputs("");
    if (!policy::is_decommissioned(w.stored())) co_await look_everywhere(w, p);
    co_await assume_observations(w);
    const auto now = w.outside().clock.now();
    p.plan = policy::plan(w.desired(), w.observed(), w.stored(), now, options);
    const bool assumed = co_await assume_known_instances(w, p.plan);
    if (assumed) p.plan = policy::plan(w.desired(), w.observed(), w.stored(), now, options);

    for (const auto& a : p.plan.actions)
        add_change(p, a);
    add_after_onboarding(p, w);
    for (const auto& view : p.plan.users)
        if (view.blocked) p.blocked.push_back(view);
    p.later = p.plan.later;
    std::ranges::stable_sort(p.later, {}, &policy::decision::next_at);
    p.unmanaged = p.plan.unmanaged;
    co_return p;
}

}  // namespace reconcile
