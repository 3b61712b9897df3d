#include "policy/facts.hpp"

#include "policy/fingerprint.hpp"

#include <tuple>

namespace policy {
namespace {

const desired_user* find_user(const desired_exposure& exposure, const std::string& name)
{
    const auto found = std::ranges::find(exposure.users, name, &desired_user::name);
    return found == exposure.users.end() ? nullptr : &*found;
}

// The newest generation that was never in use and still may be.
const generation* find_pending(const stored_user& have)
{
    for (auto it = have.generations.rbegin(); it != have.generations.rend(); ++it)
        if (it->id != have.current && !it->published_at && !is_dead(*it)) return &*it;
    return nullptr;
}

}  // namespace

facts join(const desired_state& wanted, const observed_state& observed, const stored_state& stored,
           const user_name& name, instant now, plan_options options)
{
    facts f{.wanted = wanted,
            .owner = stored.owner,
            .instance_id = {},
            .wanted_print = {},
            .now = now,
            .options = options};
    const auto exposure = std::ranges::find(wanted.exposures, name.exposure, &desired_exposure::name);
    if (exposure != wanted.exposures.end()) {
        f.exposure = &*exposure;
        f.want = find_user(*exposure, name.user);
        if (f.want) f.wanted_print = entry_fingerprint(*exposure, *f.want);
    }
    if (const auto have = stored.users.find(name); have != stored.users.end()) {
        f.have = &have->second;
        f.current = f.have->find(f.have->current);
        f.pending = find_pending(*f.have);
    }
    if (const auto seen = observed.exposures.find(name.exposure);
        f.exposure && seen != observed.exposures.end() && !seen->second.error)
        f.seen = &seen->second;
    if (const auto known = stored.exposures.find(name.exposure); known != stored.exposures.end())
        f.instance_id = known->second.where.instance_id;
    return f;
}

std::vector<const remote_user*> carriers(const facts& f, const generation& g)
{
    std::vector<const remote_user*> found;
    if (!f.seen || !f.have) return found;
    for (const auto& user : f.seen->users)
        if (user.mark && user.mark->owner == f.owner && user.mark->name == f.have->name &&
            user.mark->key == marker_key(g.fingerprint))
            found.push_back(&user);
    std::ranges::sort(found, {}, [](const remote_user* user) {
        return std::tuple(user->status != remote_status::ready, user->creation_date.value_or(instant::max()),
                          user->id);
    });
    return found;
}

const remote_user* listed(const facts& f, const generation& g)
{
    if (!f.seen || g.remote_id.empty()) return nullptr;
    const auto user = std::ranges::find(f.seen->users, g.remote_id, &remote_user::id);
    return user == f.seen->users.end() ? nullptr : &*user;
}

bool is_ours(const facts& f, const generation& g)
{
    const auto* user = listed(f, g);
    if (user)
        return user->mark ? user->mark->owner == f.owner : is_cut_off(user->description, g.sent.description);
    const bool elsewhere =
        !f.exposure || g.where.base_url != f.exposure->base_url || g.where.tenant != f.exposure->tenant;
    return elsewhere || g.remote_id.empty() || g.lost_at ||
           (f.seen && f.seen->confirmed_missing.contains(g.remote_id));
}

bool may_show_up(const facts& f, const generation& g)
{
    if (!g.submitted_at || g.answered) return false;
    const auto looked_at = f.seen ? f.seen->looked_at : f.now;
    return looked_at < *g.submitted_at + f.wanted.reconcile.settle;
}

bool is_dead(const generation& g) noexcept
{
    return g.abandoned || g.lost_at || !g.quarantine.empty();
}

bool is_left_over(const facts& f, const generation& g) noexcept
{
    return &g != f.current && &g != f.pending;
}

}  // namespace policy
