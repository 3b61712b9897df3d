#include "policy/plan.hpp"

#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"
#include "policy/roster.hpp"

#include <set>

namespace policy {
namespace {

// Why nothing may be sent to an exposure now; healthy when its instance is READY, known and believed.
struct gate {
    reason why = reason::healthy;
    std::string sentence;
    bool blocked = false;
    std::optional<action> act;     // exposure-wide step that would open it
    std::optional<instant> until;  // when it may open by time alone
    bool polls = false;
    bool shut = false;  // nothing at all may change, not even on this host

    bool open() const { return why == reason::healthy; }
};

gate closed(reason why, std::string sentence, bool blocked)
{
    return {.why = why, .sentence = std::move(sentence), .blocked = blocked, .act = std::nullopt};
}

action exposure_action(action_kind kind, const std::string& exposure, reason why, std::string sentence,
                       std::string id = {})
{
    return {.kind = kind,
            .name = {exposure, ""},
            .why = why,
            .sentence = std::move(sentence),
            .generation = {},
            .remote_id = std::move(id)};
}

std::optional<gate> host_guard(const observed_state& observed, const stored_state& stored)
{
    if (stored.cloned) {
        auto g = closed(
            reason::cloned,
            "the state directory comes from another machine: say `takeover` here if that one is gone", true);
        g.shut = true;
        return g;
    }
    const auto skew = observed.clock_ahead.value_or(span(0));
    if (std::chrono::abs(skew) <= limits::clock_skew) return std::nullopt;
    auto g = closed(reason::clock_wrong,
                    "this clock is " + format_span(std::chrono::abs(skew)) +
                        (skew > span(0) ? " ahead of" : " behind") + " the platform's: set the time",
                    true);
    g.shut = true;
    return g;
}

bool lives_at(const generation& g, const desired_exposure& exposure)
{
    return g.where.base_url == exposure.base_url && g.where.tenant == exposure.tenant;
}

// The instance that its record names; else (the record was lost, or the file meant another tenant for a
// while) one that its users were made in and that is not shown. Empty: none was ever known.
std::string known_instance(const desired_exposure& exposure, const observed_exposure& seen,
                           const stored_exposure& kept, const stored_state& stored)
{
    if (!kept.where.instance_id.empty()) return kept.where.instance_id;
    std::string known;
    for (const auto& [name, user] : stored.users) {
        if (name.exposure != exposure.name) continue;
        for (const auto& g : user.generations) {
            if (!lives_at(g, exposure) || g.lost_at || (g.remote_id.empty() && !g.submitted_at)) continue;
            if (!seen.instances.empty() && g.where.instance_id == seen.instances.front().id) return {};
            known = g.where.instance_id;
        }
    }
    return known;
}

gate instance_gate(const desired_exposure& exposure, const observed_exposure& seen,
                   const stored_exposure& kept, const std::string& known, span settle, instant now,
                   const plan_options& options)
{
    if (!kept.unreadable.empty()) return closed(reason::record_unreadable, kept.unreadable, true);
    const auto& onboarding = kept.onboarding_since;
    if (seen.instances.size() > 1)
        return closed(reason::instance_several,
                      "the platform shows " + std::to_string(seen.instances.size()) +
                          " instances where one is allowed: ask its operator",
                      true);
    const bool gone = !known.empty() && (seen.instances.empty() || seen.instances.front().id != known);
    if (gone) {
        auto g = closed(reason::instance_vanished,
                        "instance " + known +
                            " is gone from the platform; nothing is created until `reconcile --accept-loss`",
                        true);
        if (options.accept_loss)
            g.act = exposure_action(action_kind::forget_instance, exposure.name, g.why,
                                    "its loss was accepted", known);
        return g;
    }
    if (seen.instances.empty()) {
        if (!exposure.create_instance)
            return closed(reason::instance_missing, "the tenant has no instance and create_instance is false",
                          true);
        auto g = closed(reason::waiting_instance, "the tenant has no instance yet", false);
        g.polls = onboarding && seen.looked_at < *onboarding + settle;
        if (const auto at = not_before(kept.failure, exposure.base_url, now);
            at && *at > now && !options.ignore_backoff) {
            g.sentence = kept.failure->sentence;
            g.blocked = kept.failure->kind != retry::later;
            g.until = at;
        } else if (!exposure.users.empty() && !g.polls)
            g.act = exposure_action(action_kind::onboard, exposure.name, reason::absent,
                                    "the tenant has no instance yet");
        return g;
    }
    const auto& instance = seen.instances.front();
    if (known.empty()) {
        auto g = closed(reason::waiting_instance, "its instance was found", false);
        g.act = exposure_action(action_kind::remember_instance, exposure.name, reason::absent, g.sentence,
                                instance.id);
        return g;
    }
    if (instance.status != remote_status::ready) {
        auto g = closed(reason::waiting_instance, "its instance is " + instance.status_text, false);
        g.polls = true;
        return g;
    }
    return {};
}

// Two or more of its users, and more than half of them, gone at once (contract section 3).
bool users_vanished(const desired_exposure& exposure, const observed_exposure& seen,
                    const stored_state& stored)
{
    std::size_t known = 0;
    std::size_t missing = 0;
    for (const auto& user : exposure.users) {
        const auto have = stored.users.find({exposure.name, user.name});
        if (have == stored.users.end()) continue;
        const auto* current = have->second.find(have->second.current);
        if (!current || current->lost_at || current->remote_id.empty()) continue;
        ++known;
        missing += seen.confirmed_missing.contains(current->remote_id) ? 1 : 0;
    }
    return missing >= 2 && missing * 2 > known;
}

// What is remembered of the exposure, as long as the file means the same place.
stored_exposure record_of(const desired_exposure& exposure, const stored_state& stored)
{
    const auto kept = stored.exposures.find(exposure.name);
    if (kept == stored.exposures.end()) return {};
    const auto& where = kept->second.where;
    const bool same = where.base_url == exposure.base_url && where.variant == exposure.variant &&
                      where.tenant == exposure.tenant;
    return same || !kept->second.unreadable.empty() ? kept->second : stored_exposure{};
}

gate gate_of(const desired_exposure& exposure, const observed_state& observed, const stored_state& stored,
             span settle, instant now, const plan_options& options)
{
    if (auto guard = host_guard(observed, stored)) return *guard;
    const auto seen = observed.exposures.find(exposure.name);
    if (seen == observed.exposures.end()) return closed(reason::unreachable, "it was not looked at", false);
    if (seen->second.error) return closed(reason::unreachable, seen->second.error->context, false);
    const auto kept = record_of(exposure, stored);
    auto g = instance_gate(exposure, seen->second, kept, known_instance(exposure, seen->second, kept, stored),
                           settle, now, options);
    if (!g.open() || options.accept_loss || !users_vanished(exposure, seen->second, stored)) return g;
    return closed(reason::users_vanished,
                  "most of its users are gone from the platform at once; nothing is created until `reconcile "
                  "--accept-loss`",
                  true);
}

// What the exposure is like now says nothing of a user that was made when the file meant another place.
bool lives_elsewhere(const stored_user& user, const desired_exposure& exposure)
{
    return std::ranges::none_of(user.generations,
                                [&](const generation& g) { return !g.lost_at && lives_at(g, exposure); });
}

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
        const auto guard = host_guard(observed_, stored_).value_or(gate{});
        for (const auto& [name, user] : stored_.users)
            if (name.exposure == exposure.name && !all_.wanted(name))
                plan_user(name, lives_elsewhere(user, exposure) ? guard : g);
        collect_strangers(exposure);
    }

    // Users of exposures that the file does not name any more: their records say where they live.
    void plan_removed_exposures()
    {
        const auto guard = host_guard(observed_, stored_).value_or(gate{});
        for (const auto& [name, user] : stored_.users)
            if (!all_.of(name.exposure).wanted) plan_user(name, guard);
    }

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
        } else if (view.next_at && step.why == reason::healthy) {
            view.next = "rotate";
        }
        result_.waits_for_platform |= step.polls && g.open() && sets_pace(name.exposure);
        wake(name.exposure, view.next_at);
        // hooks wait beside the user's next step, which they never hold up
        if (f.have) wake(name.exposure, not_before(f.have->deploy_failure, f.wanted_print, now_));
        auto extras = clearing_up(f);
        view.clears = !extras.empty();
        for (auto& extra : extras)
            clear(name.exposure, std::move(extra), g);
        result_.users.push_back(std::move(view));
    }

    // What the gate lets through is done now; what it stops is shown with the gate's reason.
    void admit(action& act, const gate& g, outlook& view)
    {
        const bool stopped =
            g.shut || (needs_platform(act.kind) && !g.open()) || (act.kind == action_kind::lose && !g.open());
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

    void collect_strangers(const desired_exposure& exposure)
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
            result_.strangers.push_back({.exposure = exposure.name,
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
    roster all_;
    instant now_;
    plan_options options_;
    plan_result result_;
};

}  // namespace

plan_result plan(const desired_state& desired, const observed_state& observed, const stored_state& stored,
                 instant now, plan_options options)
{
    return planner(desired, observed, stored, now, options).run();
}

}  // namespace policy
