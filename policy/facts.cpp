#include "policy/facts.hpp"

#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <tuple>

namespace policy {

namespace {

exposure_index roster_of(const desired_exposure& exposure, const observed_exposure* seen)
{
    exposure_index r{.wanted = &exposure};
    for (const auto& user : exposure.users)
        r.users.emplace(user.name, &user);
    if (!seen) return r;
    for (const auto& user : seen->users) {
        r.by_id.emplace(user.id, &user);
        if (user.mark) r.by_key.emplace(user.mark->key, &user);
    }
    return r;
}

}  // namespace

user_index::user_index(const desired_state& d, const observed_state& o, const stored_state& s)
    : desired(d), observed(o), stored(s)
{
    for (const auto& exposure : desired.exposures) {
        const auto seen = observed.exposures.find(exposure.name);
        exposures_.emplace(exposure.name,
                           roster_of(exposure, seen == observed.exposures.end() ? nullptr : &seen->second));
    }
}

const exposure_index& user_index::of(const std::string& exposure) const
{
    static const exposure_index none;
    const auto found = exposures_.find(exposure);
    return found == exposures_.end() ? none : found->second;
}

const desired_user* user_index::wanted(const user_name& name) const
{
    const auto& users = of(name.exposure).users;
    const auto found = users.find(name.user);
    return found == users.end() ? nullptr : found->second;
}

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
            .options = options,
            .leaving = all.stored.leaving ? &*all.stored.leaving : nullptr};
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
    if (!user.mark && g.imported) return !g.kept && user.id == g.remote_id;
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

finding act(const facts& f, action_kind kind, reason why, std::string sentence, const generation* g)
{
    return {.why = why,
            .sentence = sentence,
            .act = action{.kind = kind,
                          .name = name_of(f),
                          .why = why,
                          .sentence = sentence,
                          .generation = g ? g->id : "",
                          .remote_id = {},
                          .replaces = f.current != nullptr},
            .until = std::nullopt};
}

finding wait(reason why, std::string sentence, std::optional<instant> until)
{
    return {.why = why, .sentence = std::move(sentence), .act = std::nullopt, .until = until};
}

finding block(reason why, std::string sentence)
{
    auto found = wait(why, std::move(sentence), std::nullopt);
    found.blocked = true;
    return found;
}

}  // namespace policy
