#include "policy/backoff.hpp"
#include "policy/checks.hpp"
#include "policy/findings.hpp"

namespace policy {
namespace {

// When the first certificate after it was in use, its hooks passed.
instant succeeded_at(const facts& f, const generation& g)
{
    auto first = *f.current->deployed_at;
    for (const auto& other : f.have->generations)
        if (&other != &g && other.deployed_at && *other.deployed_at > *g.published_at)
            first = std::min(first, *other.deployed_at);
    return first;
}

finding surplus(const facts& f, const generation& g, const std::string& id)
{
    auto found = act(f, action_kind::retire_surplus, reason::surplus,
                     "user " + id + " is a second one for generation " + g.id, &g);
    found.act->remote_id = id;
    return found;
}

// Users that carry the key of this generation beside the one that it knows.
void add_surplus(const facts& f, const generation& g, std::vector<finding>& found)
{
    for (const auto* user : users_with_key(f, g)) {
        if (user->id == g.remote_id) continue;
        // a marker can be copied, a key cannot: the certificate shows whose it is
        if (user->status == remote_status::ready || !may_get_certificate(*user, g, f.now))
            found.push_back(surplus(f, g, user->id));
        else
            found.push_back(
                wait(reason::surplus, "user " + user->id + " has no certificate yet", std::nullopt));
    }
}

std::optional<finding> leftover(const facts& f, const generation& g)
{
    const bool for_a_person = !g.quarantine.empty() && &g == &f.have->generations.back();
    if (for_a_person) return std::nullopt;
    if (!is_ours(f, g)) return std::nullopt;
    if (const auto at = retires_at(f, g); at > f.now || may_show_up(f, g))
        return wait(reason::superseded,
                    (g.remote_id.empty() ? g.sent.common_name : "user " + g.remote_id) +
                        " was replaced; deleted after retire_after",
                    at);
    // Taken for gone once, and there again: its key stays until it is certainly deleted.
    if (g.missing_since && listed(f, g)) return surplus(f, g, g.remote_id);
    return act(f, action_kind::retire, reason::superseded,
               "generation " + g.id + " was replaced, and its successor is in use", &g);
}

bool failed_here(const std::optional<failure_memory>& memory)
{
    return memory && is_local(memory->code);
}

// The certificate in use is in order and its hooks have passed, and the disk has kept that: nothing before it
// is needed any more.
bool stands_firm(const facts& f)
{
    if (failed_here(f.have->failure) || failed_here(f.have->deploy_failure)) return false;
    const bool in_order =
        f.have->output == output_condition::sound || f.have->output == output_condition::changed;
    return f.current && f.current->deployed_at && in_order;
}

}  // namespace

instant retires_at(const facts& f, const generation& g)
{
    const bool gone = g.missing_since && !listed(f, g);
    const bool at_once = f.have->retire_now || !g.published_at || gone;
    const auto at = at_once ? f.now : succeeded_at(f, g) + f.want->rotation.retire_after;
    return may_show_up(f, g) ? std::max(at, *g.submitted_at + f.wanted.reconcile.settle) : at;
}

std::vector<finding> clearing_up(const facts& f)
{
    std::vector<finding> found;
    if (!f.want || !f.have || !f.have->unreadable.empty() || !stands_firm(f)) return found;
    if (const auto at = not_before(f.have->clear_failure, f.wanted_print, f.now);
        at && *at > f.now && !f.options.ignore_backoff)
        return {wait(reason::backing_off, f.have->clear_failure->sentence, at)};
    for (const auto& g : f.have->generations) {
        if (&g == f.pending) continue;
        add_surplus(f, g, found);
        if (&g == f.current) continue;
        if (auto rule = leftover(f, g)) found.push_back(std::move(*rule));
    }
    return found;
}

}  // namespace policy
