#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/findings.hpp"

namespace policy {
namespace {

bool attributable(const facts& f, const generation& g)
{
    const auto* user = listed(f, g);
    return !user || !user->mark || user->mark->owner == f.owner;
}

bool never_in_use(const generation& g)
{
    return !g.published_at;
}

std::optional<finding> leftover(const facts& f, const generation& g)
{
    if (!f.current || !f.current->deployed_at || !attributable(f, g)) return std::nullopt;
    const auto pause = f.want ? f.want->rotation.retire_after : f.have->entry.retire_after;
    const auto at = *f.current->deployed_at + pause;
    const bool unknown = g.submitted_at && g.remote_id.empty();
    const bool at_once = !unknown && (f.have->retire_now || never_in_use(g) || g.lost_at);
    if (!at_once && f.now < at) return wait(reason::superseded, "its successor is in use", at);
    if (unknown && (!f.seen || !carriers(f, g).empty())) return std::nullopt;
    return act(f, action_kind::retire, reason::superseded,
               "generation " + g.id + " was replaced, and its successor is in use", &g);
}

void add_surplus(const facts& f, const generation& g, std::vector<finding>& found)
{
    const bool safe = &g == f.current ? g.deployed_at.has_value() : is_left_over(f, g);
    if (!safe) return;
    for (const auto* user : carriers(f, g)) {
        if (user->id == g.remote_id) continue;
        auto extra = act(f, action_kind::retire_surplus, reason::surplus,
                         "user " + user->id + " is a second one for generation " + g.id, &g);
        extra.act->remote_id = user->id;
        found.push_back(std::move(extra));
    }
}

}  // namespace

std::vector<finding> clearing_up(const facts& f)
{
    std::vector<finding> found;
    if (!f.want || !f.have || !f.have->unreadable.empty()) return found;
    if (const auto at = not_before(f.have->clear_failure, f.wanted_print);
        at && *at > f.now && !f.options.ignore_backoff)
        return {wait(reason::backing_off, f.have->clear_failure->sentence, at)};
    for (const auto& g : f.have->generations) {
        add_surplus(f, g, found);
        if (!is_left_over(f, g)) continue;
        if (auto rule = leftover(f, g)) found.push_back(std::move(*rule));
    }
    return found;
}

}  // namespace policy
