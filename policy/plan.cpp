#include "policy/plan.hpp"

#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"

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
        const auto guard = guard_of(exposure, observed_, stored_, desired_.reconcile.settle, now_, options_);
        wake(exposure.name, guard.until);
        result_.exposures.push_back({.name = {exposure.name, ""},
                                     .why = guard.why,
                                     .sentence = guard.sentence,
                                     .blocked = guard.blocked});
        result_.waits_for_platform |= guard.polls && sets_pace(exposure.name);
        if (guard.act) result_.actions.push_back(*guard.act);
        for (const auto& user : exposure.users)
            plan_user({exposure.name, user.name}, guard);
        for (const auto& [name, user] : stored_.users)
            if (name.exposure == exposure.name && !all_.wanted(name))
                plan_user(name, lives_elsewhere(user, exposure) ? own_guard(user) : guard);
        collect_unmanaged(exposure);
    }

    // Users whose exposure was removed from the configuration: their records say where they live.
    void plan_removed_exposures()
    {
        for (const auto& [name, user] : stored_.users)
            if (!all_.of(name.exposure).wanted) plan_user(name, own_guard(user));
    }

    finding own_guard(const stored_user& user) const
    {
        return guard_of(user, observed_, stored_).value_or(finding{});
    }

    void plan_user(const user_name& name, const finding& guard)
    {
        const auto f = join(all_, name, now_, options_);
        auto step = next_step(f);
        decision view{.name = name,
                      .why = step.why,
                      .sentence = step.sentence,
                      .blocked = step.blocked,
                      .next = {},
                      .next_at = step.until};
        if (step.act) {
            view.next = contract_word(*step.act);
            admit(*step.act, guard, view);
        } else if (view.next_at) {
            wait_for(f, step, view);
        }
        result_.waits_for_platform |= step.polls && guard.open() && sets_pace(name.exposure);
        wake(name.exposure, step.until);
        // hooks wait alongside the user's next step and never delay it
        if (f.have) wake(name.exposure, not_before(f.have->deploy_failure, f.wanted_fingerprint, now_));
        auto extras = clearing_up(f);
        view.clears = !extras.empty();
        for (auto& extra : extras) {
            if (extra.why == reason::superseded && extra.until && *extra.until > now_)
                result_.later.push_back({.name = name,
                                         .why = extra.why,
                                         .sentence = extra.sentence,
                                         .next = "retire",
                                         .next_at = extra.until});
            clear(name.exposure, std::move(extra), guard);
        }
        result_.users.push_back(std::move(view));
    }

    // Performs what the guard permits; what it stops is reported with the guard's reason.
    void admit(action& act, const finding& guard, decision& view)
    {
        const bool stopped = guard.frozen || (needs_platform(act.kind) && !guard.open()) ||
                             (act.kind == action_kind::mark_missing && !guard.open());
        if (!stopped) {
            view.next_at = now_;
            result_.actions.push_back(act);
            return;
        }
        view.why = guard.why;
        view.sentence = guard.sentence;
        view.blocked = guard.blocked;
        view.next_at = std::nullopt;
    }

    // Schedules what time alone will change.
    void wait_for(const facts& f, const finding& step, decision& view)
    {
        if (step.why == reason::backing_off) {
            auto then = f;
            then.options.ignore_backoff = true;
            if (const auto next = next_step(then); next.act) view.next = contract_word(*next.act);
        } else if (step.why == reason::not_in_file) {
            view.next = "remove";
            result_.later.push_back({.name = view.name,
                                     .why = step.why,
                                     .sentence = step.sentence,
                                     .next = view.next,
                                     .next_at = step.until});
        } else if (step.why == reason::healthy && is_paused(f)) {
            view.next_at = std::nullopt;
        } else if (step.why == reason::healthy) {
            view.next = "rotate";
            result_.later.push_back(
                {.name = view.name,
                 .why = reason::rotation_due,
                 .sentence = "its certificate expires at " + format_utc(f.current->certificate->expiry()),
                 .next = view.next,
                 .next_at = step.until});
        }
    }

    void clear(const std::string& exposure, finding extra, const finding& guard)
    {
        wake(exposure, extra.until);
        if (extra.act && !guard.frozen && (guard.open() || !needs_platform(extra.act->kind)))
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

    // Users removed from the configuration: more than max_deletes at once are taken for a mistake, and none
    // is deleted. Routine retirements are limited to the same number per pass.
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

    void stop_removal(decision& view, std::size_t removals) const
    {
        view.why = reason::deletes_exceeded;
        view.sentence = "this pass would delete " + count(removals, "user") +
                        ", but reconcile.max_deletes allows " +
                        std::to_string(desired_.reconcile.max_deletes) +
                        "; nothing is deleted. If the deletions are intended, raise reconcile.max_deletes";
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

namespace {

using fact_list = std::vector<std::pair<std::string, std::string>>;

std::string time_text(const std::optional<instant>& at)
{
    return at ? format_utc(*at) : "not yet";
}

void add_generation(fact_list& list, const std::string& lead, const facts& f, const generation& g)
{
    list.emplace_back(lead, g.id);
    list.emplace_back(lead + "_common_name", g.sent.common_name);
    list.emplace_back(lead + "_remote_id", g.remote_id.empty() ? "unknown" : g.remote_id);
    list.emplace_back(lead + "_submitted", time_text(g.submitted_at));
    if (g.certificate) list.emplace_back(lead + "_expires", format_utc(g.certificate->expiry()));
    list.emplace_back(lead + "_published", time_text(g.published_at));
    list.emplace_back(lead + "_deployed", time_text(g.deployed_at));
    if (const auto* user = listed(f, g)) list.emplace_back(lead + "_on_platform", user->status_text);
    if (g.missing_since) list.emplace_back(lead + "_lost", format_utc(*g.missing_since));
    if (!g.quarantine.empty()) list.emplace_back(lead + "_quarantine", g.quarantine);
}

fact_list facts_of(const facts& f, const std::optional<failure>& failed)
{
    fact_list list{{"now", format_utc(f.now)},
                   {"owner", f.owner},
                   {"in_file", f.want ? "yes" : "no"},
                   {"platform_seen", f.seen ? format_utc(f.seen->observed_at) : "no"}};
    if (failed) list.emplace_back("platform_error", failed->context);
    list.emplace_back("instance", f.instance_id.empty() ? "unknown" : f.instance_id);
    if (f.current) add_generation(list, "current", f, *f.current);
    if (f.pending) add_generation(list, "pending", f, *f.pending);
    if (!f.have) return list;
    list.emplace_back("generations", std::to_string(f.have->generations.size()));
    list.emplace_back("made_within_a_day", std::to_string(f.have->creations.size()));
    if (const auto due = due_at(f))
        list.emplace_back("rotate_at", is_paused(f) ? "never, rotation.paused is true" : format_utc(*due));
    if (const auto warning = lead_warning(f)) list.emplace_back("warning", *warning);
    if (f.have->failure) list.emplace_back("last_failure", f.have->failure->sentence);
    if (f.have->deploy_failure) list.emplace_back("last_hook_failure", f.have->deploy_failure->sentence);
    if (f.have->clear_failure) list.emplace_back("last_deletion_failure", f.have->clear_failure->sentence);
    if (f.have->unwanted_since) list.emplace_back("not_in_file_since", format_utc(*f.have->unwanted_since));
    return list;
}

std::vector<std::string> changers_of(reason why)
{
    switch (why) {
        case reason::healthy:
            return {"rotate_at passes",
                    "key, consumer_group, contact or description change in the configuration",
                    "the user is deleted on the platform", "exposure-agent rotate"};
        case reason::budget_spent:
        case reason::quarantined:
            return {"exposure-agent rotate, once the cause is known"};
        case reason::paused:
            return {"rotation.paused: false", "exposure-agent rotate"};
        case reason::users_vanished:
        case reason::instance_vanished:
            return {"the missing objects reappear on the platform", "exposure-agent reconcile --accept-loss"};
        case reason::owner_changed:
            return {"the old owner is restored in the configuration",
                    "exposure-agent reconcile --accept-loss"};
        case reason::cloned:
            return {"exposure-agent takeover, once the other machine is gone"};
        case reason::clock_wrong:
            return {"the clock of this host is corrected"};
        case reason::deletes_exceeded:
            return {"the users return to the configuration", "a larger reconcile.max_deletes"};
        case reason::backing_off:
            return {"the time of the next attempt", "a change of its entry in the configuration",
                    "exposure-agent reconcile"};
        case reason::waiting_ready:
        case reason::waiting_instance:
        case reason::waiting_settle:
        case reason::instance_failed:
            return {"the platform's next answer"};
        case reason::not_in_file:
            return {"its entry returns to the configuration before retire_after has passed"};
        case reason::key_type_changed:
        case reason::group_changed:
        case reason::contact_changed:
        case reason::description_changed:
        case reason::name_changed:
            return {"the old value is restored before the new certificate is in use"};
        case reason::unreachable:
            return {"the exposure answers"};
        case reason::instance_missing:
            return {"create_instance: true", "an instance is created in the portal"};
        default:
            return {};
    }
}

}  // namespace

explanation explain(const desired_state& desired, const observed_state& observed, const stored_state& stored,
                    const plan_result& plan, const user_name& name, instant now)
{
    explanation e{.decision = {.name = name}};
    const auto seen = observed.exposures.find(name.exposure);
    const auto failed = seen == observed.exposures.end() ? std::nullopt : seen->second.error;
    const auto wanted = stored.leaving ? leaving_state(desired) : desired;
    const user_index all(wanted, observed, stored);
    const auto f = join(all, name, now, {});
    e.facts = facts_of(f, failed);
    if (const auto found = std::ranges::find(plan.users, name, &decision::name); found != plan.users.end())
        e.decision = *found;
    const auto whole = std::ranges::find(plan.exposures, user_name{name.exposure, ""}, &decision::name);
    if (whole != plan.exposures.end() && whole->blocked)
        e.facts.emplace_back("exposure_blocked", whole->sentence);
    const bool kept = e.decision.why == reason::healthy && is_paused(f);
    e.would_change = changers_of(kept ? reason::paused : e.decision.why);
    const bool refused = e.decision.why == reason::unreachable && failed && failed->code == errc::forbidden;
    if (refused)
        e.would_change = {
            "the service user is given the role on the platform and logs in again: "
            "exposure-agent login"};
    return e;
}

}  // namespace policy
