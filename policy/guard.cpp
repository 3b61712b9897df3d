#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace policy {
namespace {

finding closed(reason why, std::string sentence, bool blocked)
{
    return {.why = why,
            .sentence = std::move(sentence),
            .act = std::nullopt,
            .until = std::nullopt,
            .blocked = blocked};
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

bool lives_at(const generation& g, const desired_exposure& exposure)
{
    return g.where.base_url == exposure.base_url && g.where.tenant == exposure.tenant;
}

// The recorded instance; else (record lost, or another tenant configured for a while) one that its users
// were created in and that is not shown. Empty: no instance was ever known.
std::string known_instance(const desired_exposure& exposure, const observed_exposure& seen,
                           const stored_exposure& kept, const stored_state& stored)
{
    if (!kept.where.instance_id.empty()) return kept.where.instance_id;
    std::string known;
    for (const auto& [name, user] : stored.users) {
        if (name.exposure != exposure.name) continue;
        for (const auto& g : user.generations) {
            if (!lives_at(g, exposure) || g.missing_since || (g.remote_id.empty() && !g.submitted_at))
                continue;
            if (!seen.instances.empty() && g.where.instance_id == seen.instances.front().id) return {};
            known = g.where.instance_id;
        }
    }
    return known;
}

finding instance_guard(const desired_exposure& exposure, const observed_exposure& seen,
                       const stored_exposure& kept, const std::string& known, duration settle, instant now,
                       const plan_options& options)
{
    if (!kept.unreadable.empty()) return closed(reason::record_unreadable, kept.unreadable, true);
    const auto& onboarding = kept.onboarding_since;
    if (seen.instances.size() > 1)
        return closed(reason::instance_several,
                      "the platform shows " + std::to_string(seen.instances.size()) +
                          " instances, but only one is allowed; ask the platform's operator",
                      true);
    const bool gone = !known.empty() && (seen.instances.empty() || seen.instances.front().id != known);
    if (gone) {
        auto g = closed(reason::instance_vanished,
                        "instance " + known +
                            " is gone from the platform, so nothing is created; if the loss is permanent, "
                            "run: exposure-agent reconcile --accept-loss",
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
        g.polls = onboarding && seen.observed_at < *onboarding + settle;
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
    if (instance.status == remote_status::failed)
        return closed(reason::instance_failed,
                      "the platform reports " + instance.status_text + " for instance " + instance.id +
                          "; ask the platform's operator",
                      true);
    if (instance.status != remote_status::ready) {
        auto g = closed(reason::waiting_instance,
                        "waiting for its instance: the platform reports " +
                            (instance.status_text.empty() ? "no status" : instance.status_text),
                        false);
        g.polls = true;
        return g;
    }
    return {};
}

// At least two of its users, and more than half of them, disappeared at once (contract section 3).
bool users_vanished(const desired_exposure& exposure, const observed_exposure& seen,
                    const stored_state& stored)
{
    std::size_t known = 0;
    std::size_t missing = 0;
    for (const auto& user : exposure.users) {
        const auto have = stored.users.find({exposure.name, user.name});
        if (have == stored.users.end()) continue;
        const auto* current = have->second.find(have->second.current);
        if (!current || current->missing_since || current->remote_id.empty()) continue;
        ++known;
        missing += seen.confirmed_missing.contains(current->remote_id) ? 1 : 0;
    }
    return missing >= 2 && missing * 2 > known;
}

// The exposure's record, if the configuration still means the same place.
stored_exposure record_of(const desired_exposure& exposure, const stored_state& stored)
{
    const auto kept = stored.exposures.find(exposure.name);
    if (kept == stored.exposures.end()) return {};
    const auto& where = kept->second.where;
    const bool same = where.base_url == exposure.base_url && where.variant == exposure.variant &&
                      where.tenant == exposure.tenant;
    return same || !kept->second.unreadable.empty() ? kept->second : stored_exposure{};
}

std::optional<finding> clone_guard(const stored_state& stored)
{
    if (!stored.cloned) return std::nullopt;
    auto g = closed(reason::cloned,
                    "the state directory was copied from another machine; once that machine is gone, run: "
                    "exposure-agent takeover",
                    true);
    g.frozen = true;
    return g;
}

bool is_wrong(duration skew)
{
    return std::chrono::abs(skew) > limits::clock_skew;
}

finding clock_wrong(duration skew)
{
    auto g = closed(reason::clock_wrong,
                    "this host's clock is " + format_duration(std::chrono::abs(skew)) +
                        (skew > duration(0) ? " ahead of" : " behind") +
                        " the platform's; correct the one that is wrong",
                    true);
    g.frozen = true;
    return g;
}

// Each platform has its own clock: a wrong one stops only its own exposures.
std::optional<finding> clock_guard(const std::string& base_url, const observed_state& observed)
{
    const auto known = observed.clock_ahead.find(base_url);
    if (known == observed.clock_ahead.end() || !is_wrong(known->second)) return std::nullopt;
    return clock_wrong(known->second);
}

}  // namespace

std::optional<finding> guard_of(const stored_user& user, const observed_state& observed,
                                const stored_state& stored)
{
    if (auto guard = clone_guard(stored)) return guard;
    const auto& clocks = observed.clock_ahead;
    // a platform that has not answered yet: our clock is wrong if all others say so
    const bool all_wrong = !clocks.empty() && std::ranges::all_of(clocks, [](const auto& clock) {
        return is_wrong(clock.second);
    });
    for (const auto& g : user.generations) {
        if (auto guard = clock_guard(g.where.base_url, observed)) return guard;
        if (all_wrong && !clocks.contains(g.where.base_url)) return clock_wrong(clocks.begin()->second);
    }
    return std::nullopt;
}

finding guard_of(const desired_exposure& exposure, const observed_state& observed, const stored_state& stored,
                 duration settle, instant now, const plan_options& options)
{
    if (auto guard = clone_guard(stored)) return *guard;
    if (auto guard = clock_guard(exposure.base_url, observed)) return *guard;
    const auto seen = observed.exposures.find(exposure.name);
    if (seen == observed.exposures.end()) return closed(reason::unreachable, "not read in this pass", false);
    if (seen->second.error) return closed(reason::unreachable, seen->second.error->context, false);
    const auto kept = record_of(exposure, stored);
    auto g = instance_guard(exposure, seen->second, kept,
                            known_instance(exposure, seen->second, kept, stored), settle, now, options);
    if (!g.open() || options.accept_loss || !users_vanished(exposure, seen->second, stored)) return g;
    return closed(reason::users_vanished,
                  "most of its users are gone from the platform at once, so nothing is created; if the loss "
                  "is permanent, run: exposure-agent reconcile --accept-loss",
                  true);
}

bool lives_elsewhere(const stored_user& user, const desired_exposure& exposure)
{
    return std::ranges::none_of(
        user.generations, [&](const generation& g) { return !g.missing_since && lives_at(g, exposure); });
}

}  // namespace policy
