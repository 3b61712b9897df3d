#include "policy/facts.hpp"

#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <tuple>

namespace policy {
facts join(const user_index& all, const user_name& name, instant now, plan_options options)
{
    const auto& listing = all.of(name.exposure);
    facts f{.wanted = all.desired,
            .listing = listing,
            .exposure = listing.wanted,
            .want = all.wanted(name),
            .owner = all.stored.owner,
            .instance_id = {},
            .wanted_print = {},
            .now = now,
            .options = options};
    if (f.want) f.wanted_print = entry_fingerprint(*f.exposure, *f.want);
    if (const auto have = all.stored.users.find(name); have != all.stored.users.end()) {
        f.have = &have->second;
        f.current = f.have->find(f.have->current);
        f.pending = find_pending(*f.have);
    }
    const auto seen = all.observed.exposures.find(name.exposure);
    if (f.exposure && seen != all.observed.exposures.end() && !seen->second.error) f.seen = &seen->second;
    if (const auto known = all.stored.exposures.find(name.exposure); known != all.stored.exposures.end())
        f.instance_id = known->second.where.instance_id;
    return f;
}

user_name name_of(const facts& f)
{
    return f.have ? f.have->name : user_name{f.exposure->name, f.want->name};
}

std::vector<const remote_user*> users_with_key(const facts& f, const generation& g)
{
    std::vector<const remote_user*> found;
    if (!f.seen || !f.have) return found;
    const auto [first, last] = f.listing.by_key.equal_range(marker_key(g.fingerprint));
    for (auto it = first; it != last; ++it)
        if (it->second->mark->owner == f.owner && it->second->mark->name == f.have->name &&
            std::ranges::find(g.not_ours, it->second->id) == g.not_ours.end())
            found.push_back(it->second);
    std::ranges::sort(found, {}, [](const remote_user* user) {
        return std::tuple(user->status != remote_status::ready, user->creation_date.value_or(instant::max()),
                          user->id);
    });
    return found;
}

const remote_user* listed(const facts& f, const generation& g)
{
    if (!f.seen || g.remote_id.empty()) return nullptr;
    const auto user = f.listing.by_id.find(g.remote_id);
    return user == f.listing.by_id.end() ? nullptr : user->second;
}

bool carries_marker(const remote_user& user, const std::string& owner, const user_name& name,
                    const generation& g)
{
    if (!user.mark) return is_cut_off(user.description, g.sent.description);
    return user.mark->owner == owner && user.mark->name == name &&
           user.mark->key == marker_key(g.fingerprint);
}

bool may_get_certificate(const remote_user& user, const generation& g, instant now)
{
    return user.status != remote_status::failed &&
           now - user.creation_date.value_or(g.created_at) < limits::abandon_after;
}

bool is_ours(const facts& f, const generation& g)
{
    const auto* user = listed(f, g);
    if (user) return carries_marker(*user, f.owner, f.have->name, g);
    const bool elsewhere =
        !f.exposure || g.where.base_url != f.exposure->base_url || g.where.tenant != f.exposure->tenant;
    return elsewhere || g.remote_id.empty() || g.missing_since ||
           (f.seen && f.seen->confirmed_missing.contains(g.remote_id));
}

bool may_show_up(const facts& f, const generation& g)
{
    // An answered POST has no late double, and what gave its certificate is there to see.
    if (!g.submitted_at || (g.answered && (g.remote_id.empty() || g.certificate))) return false;
    const auto looked_at = f.seen ? f.seen->looked_at : f.now;
    return looked_at < *g.submitted_at + f.wanted.reconcile.settle;
}

bool is_left_over(const facts& f, const generation& g) noexcept
{
    return &g != f.current && &g != f.pending;
}

}  // namespace policy
