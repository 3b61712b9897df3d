#include "policy/observed.hpp"

#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace policy {
namespace {

bool lives_here(const generation& g, const desired_exposure& exposure)
{
    return g.where.base_url == exposure.base_url && g.where.tenant == exposure.tenant;
}

// Only the list shows what the platform has for this generation:
// its id is unknown, or its user was gone and may be back.
bool must_be_found(const generation& g)
{
    return g.remote_id.empty() || g.missing_since;
}

// A duplicate user from one POST appears within the settle time, if at all.
bool may_have_a_double(const generation& g, duration settle, instant listed_at, instant now)
{
    if (!g.submitted_at) return false;
    const auto settled = std::max(*g.submitted_at, g.accepted_at.value_or(*g.submitted_at)) + settle;
    return now >= settled && listed_at < settled;
}

bool is_to_be_removed(const stored_user& user, const desired_exposure& exposure, instant now)
{
    const bool named =
        std::ranges::find(exposure.users, user.name.user, &desired_user::name) != exposure.users.end();
    return !named && user.unwanted_since && now >= *user.unwanted_since + user.entry.retire_after;
}

std::string known_instance(const stored_exposure& kept, const desired_exposure& exposure)
{
    const auto& where = kept.where;
    const bool same = where.base_url == exposure.base_url && where.tenant == exposure.tenant &&
                      where.variant == exposure.variant;
    return same && kept.unreadable.empty() ? where.instance_id : "";
}

}  // namespace

instant next_turn(const std::string& owner, const std::string& exposure, duration period, instant after)
{
    const auto length = period.count();
    const auto offset =
        static_cast<std::int64_t>(stable_hash(owner + '\0' + exposure) % static_cast<std::uint64_t>(length));
    const auto since = after.time_since_epoch().count() - offset;
    const auto periods = since >= 0 ? since / length : (since - length + 1) / length;
    return instant(duration((periods + 1) * length + offset));
}

instant next_list_after(const std::string& owner, const std::string& exposure, instant fetched)
{
    return next_turn(owner, exposure, limits::list_period, fetched);
}

inquiry inquiry_of(const desired_state& desired, const desired_exposure& exposure, const stored_state& stored,
                   instant now, std::optional<instant> previous_pass)
{
    const auto found = stored.exposures.find(exposure.name);
    const auto kept = found == stored.exposures.end() ? stored_exposure() : found->second;
    inquiry asked{.instance = known_instance(kept, exposure)};
    // in the future: the clock was set back
    const bool never = !kept.listed_at || *kept.listed_at > now;
    const auto overdue = [&] { return next_list_after(stored.owner, exposure.name, *kept.listed_at) <= now; };
    const auto slot_of = [&](duration period) {
        return next_turn(stored.owner, exposure.name, period, *previous_pass) <= now;
    };
    asked.due = never || (overdue() &&
                          (!previous_pass || slot_of(limits::list_period) || slot_of(limits::list_catch_up)));
    asked.list = asked.instance.empty();

    std::size_t users = 0;
    for (const auto& [name, user] : stored.users) {
        if (name.exposure != exposure.name) continue;
        ++users;
        asked.list |= !user.unreadable.empty() || user.clear_failure || is_to_be_removed(user, exposure, now);
        for (const auto& g : user.generations) {
            if (!lives_here(g, exposure)) continue;
            if (must_be_found(g))
                asked.list = true;
            else
                asked.ids.push_back(g.remote_id);
            asked.due |= never || may_have_a_double(g, desired.reconcile.settle, *kept.listed_at, now);
        }
    }
    asked.list |= users > limits::read_by_id;
    asked.list |= asked.due;
    if (!asked.list) asked.next_list = next_list_after(stored.owner, exposure.name, *kept.listed_at);
    return asked;
}

std::optional<std::string> not_served(const unit_facts& before, const unit_facts& after, bool restarted)
{
    if (after.active_state.empty()) return "systemd does not report its state";
    if (after.active_state == "failed")
        return "it is in state failed" + (after.result.empty() ? "" : " (" + after.result + ")") +
               ", so nothing uses the new certificate: fix and start it, or run systemctl reset-failed if it "
               "is meant to stay stopped";
    if (after.active_state == "activating" && after.sub_state == "auto-restart")
        return "it exits right after it is started, and systemd keeps restarting it";
    if (after.active_state == "deactivating") return "it is still stopping";
    const bool ran = before.active_state == "active" || before.active_state == "reloading";
    const bool same = !before.invocation_id.empty() && before.invocation_id == after.invocation_id;
    if (restarted && ran && same && after.active_state != "inactive")
        return "it was not restarted and still uses the previous certificate";
    return std::nullopt;
}

}  // namespace policy
