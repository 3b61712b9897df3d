#include "policy/plan.hpp"

#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/gate.hpp"

#include <limits>
#include <set>

namespace policy {
namespace {

class planner {
public:
    planner(const desired_state& desired, const observed_state& observed, const stored_state& stored,
            instant now, plan_options options)
        : desired_(desired),
          observed_(observed),
          stored_(stored),
          all_(desired, observed, stored),
          now_(now),
          options_(options)
    {
        result_.wake_at = now + desired.reconcile.interval;
    }

    plan_result run()
    {
        for (const auto& exposure : desired_.exposures)
            plan_exposure(exposure);
        plan_removed_exposures();
        limit_deletes();
        return std::move(result_);
    }

private:
    void plan_exposure(const desired_exposure& exposure)
    {
        const auto g = gate_of(exposure, observed_, stored_, desired_.reconcile.settle, now_, options_);
        wake(exposure.name, g.until);
        result_.exposures.push_back({exposure.name, g.why, g.sentence, g.blocked});
        result_.waits_for_platform |= g.polls && sets_pace(exposure.name);
        if (g.act) result_.actions.push_back(*g.act);
        for (const auto& user : exposure.users)
            plan_user({exposure.name, user.name}, g);
        for (const auto& [name, user] : stored_.users)
            if (name.exposure == exposure.name && !all_.wanted(name))
                plan_user(name, lives_elsewhere(user, exposure) ? guard(user) : g);
        collect_unmanaged(exposure);
    }

    // Users of exposures that the file does not name any more: their records say where they live.
    void plan_removed_exposures()
    {
        for (const auto& [name, user] : stored_.users)
            if (!all_.of(name.exposure).wanted) plan_user(name, guard(user));
    }

    gate guard(const stored_user& user) const { return guard_of(user, observed_, stored_).value_or(gate{}); }

    void plan_user(const user_name& name, const gate& g)
    {
        const auto f = join(all_, name, now_, options_);
        auto step = next_step(f);
        outlook view{.name = name,
                     .finding = step.why,
                     .sentence = step.sentence,
                     .blocked = step.blocked,
                     .next = {},
                     .next_at = step.until};
        if (step.act) {
            view.next = contract_word(*step.act);
            admit(*step.act, g, view);
        } else if (view.next_at) {
            wait_for(f, step, view);
        }
        result_.waits_for_platform |= step.polls && g.open() && sets_pace(name.exposure);
        wake(name.exposure, view.next_at);
        // hooks wait beside the user's next step, which they never hold up
        if (f.have) wake(name.exposure, not_before(f.have->deploy_failure, f.wanted_print, now_));
        auto extras = clearing_up(f);
        view.clears = !extras.empty();
        for (auto& extra : extras) {
            if (extra.why == reason::superseded && extra.until && *extra.until > now_)
                result_.later.push_back({name, "retire", extra.why, extra.sentence, *extra.until});
            clear(name.exposure, std::move(extra), g);
        }
        result_.users.push_back(std::move(view));
    }

    // What the gate lets through is done now; what it stops is shown with the gate's reason.
    void admit(action& act, const gate& g, outlook& view)
    {
        const bool stopped = g.shut || (needs_platform(act.kind) && !g.open()) ||
                             (act.kind == action_kind::mark_missing && !g.open());
        if (!stopped) {
            view.next_at = now_;
            result_.actions.push_back(act);
            return;
        }
        view.finding = g.why;
        view.sentence = g.sentence;
        view.blocked = g.blocked;
        view.next_at = std::nullopt;
    }

    // What time alone will bring.
    void wait_for(const facts& f, const finding& step, outlook& view)
    {
        if (step.why == reason::backing_off) {
            auto then = f;
            then.options.ignore_backoff = true;
            if (const auto next = next_step(then); next.act) view.next = contract_word(*next.act);
        } else if (step.why == reason::not_in_file) {
            view.next = "remove";
            result_.later.push_back({view.name, view.next, step.why, step.sentence, *step.until});
        } else if (step.why == reason::healthy && !f.want->rotation.paused) {
            view.next = "rotate";
            result_.later.push_back(
                {view.name, view.next, reason::rotation_due,
                 "its certificate expires at " + format_utc(f.current->certificate->expiry()), *step.until});
        }
    }

    void clear(const std::string& exposure, finding extra, const gate& g)
    {
        wake(exposure, extra.until);
        if (extra.act && !g.shut && (g.open() || !needs_platform(extra.act->kind)))
            result_.actions.push_back(*extra.act);
    }

    bool sets_pace(const std::string& exposure) const
    {
        return options_.pace_of.empty() || options_.pace_of == exposure;
    }

    void wake(const std::string& exposure, std::optional<instant> at)
    {
        if (at && *at > now_ && sets_pace(exposure)) result_.wake_at = std::min(result_.wake_at, *at);
    }

    void collect_unmanaged(const desired_exposure& exposure)
    {
        const auto seen = observed_.exposures.find(exposure.name);
        if (seen == observed_.exposures.end()) return;
        std::set<std::string> ours;
        std::set<std::string> keys;
        for (const auto& [name, user] : stored_.users)
            for (const auto& g : user.generations) {
                if (!g.remote_id.empty()) ours.insert(g.remote_id);
                keys.insert(marker_key(g.fingerprint));
            }
        for (const auto& user : seen->second.users) {
            const bool mine = user.mark && user.mark->owner == stored_.owner;
            if (ours.contains(user.id) || (mine && keys.contains(user.mark->key))) continue;
            result_.unmanaged.push_back({.exposure = exposure.name,
                                         .remote_id = user.id,
                                         .name = user.name,
                                         .owner = user.mark ? std::optional(user.mark->owner) : std::nullopt,
                                         .keyless = mine});
        }
    }

    // Users that the file stopped naming: more than max_deletes at once is taken for a mistake in the file,
    // and none is deleted. Routine retirements are paced to the same number a pass.
    void limit_deletes()
    {
        const auto most = static_cast<std::size_t>(desired_.reconcile.max_deletes);
        const auto removals =
            static_cast<std::size_t>(std::ranges::count(result_.actions, action_kind::remove, &action::kind));
        if (removals > most) {
            std::set<user_name> stopped;
            for (const auto& a : result_.actions)
                if (a.kind == action_kind::remove) stopped.insert(a.name);
            std::erase_if(result_.actions, [](const action& a) { return a.kind == action_kind::remove; });
            for (auto& view : result_.users)
                if (stopped.contains(view.name)) stop_removal(view, removals);
        }
        std::size_t room = removals > most ? most : most - removals;
        std::erase_if(result_.actions, [&room](const action& a) {
            if (!deletes(a.kind) || a.kind == action_kind::remove) return false;
            if (room == 0) return true;
            --room;
            return false;
        });
    }

    void stop_removal(outlook& view, std::size_t removals) const
    {
        view.finding = reason::deletes_exceeded;
        view.sentence = "this pass would delete " + std::to_string(removals) +
                        " users, reconcile.max_deletes allows " +
                        std::to_string(desired_.reconcile.max_deletes) +
                        ": none is deleted; if the file is right, raise it";
        view.blocked = true;
        view.next_at = std::nullopt;
    }

    const desired_state& desired_;
    const observed_state& observed_;
    const stored_state& stored_;
    user_index all_;
    instant now_;
    plan_options options_;
    plan_result result_;
};

}  // namespace

plan_result plan(const desired_state& desired, const observed_state& observed, const stored_state& stored,
                 instant now, plan_options options)
{
    if (!stored.leaving) return planner(desired, observed, stored, now, options).run();
    const auto nothing = leaving_state(desired);
    return planner(nothing, observed, stored, now, options).run();
}

desired_state leaving_state(desired_state desired)
{
    for (auto& exposure : desired.exposures) {
        exposure.users.clear();
        exposure.create_instance = false;
    }
    desired.credentials.clear();
    desired.reconcile.prune = true;
    desired.reconcile.max_deletes = std::numeric_limits<int>::max();
    return desired;
}

bool is_decommissioned(const stored_state& stored)
{
    return stored.leaving && stored.users.empty();
}

}  // namespace policy
