#include "policy/checks.hpp"

#include "policy/backoff.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"

#include <array>

namespace policy {

namespace {

using check = std::optional<finding> (*)(const facts&);

// ---- whether the user is wanted

std::optional<finding> unreadable(const facts& f)
{
    if (!f.have || f.have->unreadable.empty()) return std::nullopt;
    return block(reason::record_unreadable, f.have->unreadable);
}

// After a failed attempt, nothing is tried before the back-off ends.
std::optional<finding> backing_off(const facts& f)
{
    if (!f.have || f.options.ignore_backoff) return std::nullopt;
    const auto at = not_before(f.have->failure, f.wanted_fingerprint, f.now);
    if (!at || *at <= f.now) return std::nullopt;
    auto found = wait(reason::backing_off, f.have->failure->sentence, at);
    found.blocked = f.have->failure->kind != retry::later;
    return found;
}

// When the last of its POSTs whose user may be missing from the list will certainly be listed.
std::optional<instant> all_shown_at(const facts& f)
{
    std::optional<instant> at;
    for (const auto& g : f.have->generations)
        if (may_show_up(f, g))
            at = std::max(at.value_or(f.now + duration(1)), *g.submitted_at + f.wanted.reconcile.settle);
    return at;
}

// When a user that is no longer wanted is deleted.
instant removed_at(const facts& f)
{
    if (f.leaving && f.leaving->at_once) return f.now;
    return *f.have->unwanted_since + f.have->entry.retire_after;
}

std::optional<finding> unwanted(const facts& f)
{
    if (f.want) return std::nullopt;
    const std::string why =
        f.leaving ? "this host is being decommissioned" : "no longer in the configuration";
    if (!f.wanted.reconcile.prune)
        return wait(reason::not_in_file,
                    "no longer in the configuration; kept, because reconcile.prune is false", std::nullopt);
    // in the future: the clock was set back
    if (!f.have->unwanted_since || *f.have->unwanted_since > f.now)
        return act(f, action_kind::mark_unwanted, reason::not_in_file, why + "; deleted after retire_after");
    const auto at = removed_at(f);
    if (f.now < at) return wait(reason::not_in_file, why + "; deleted after retire_after", at);
    if (auto patience = backing_off(f)) return patience;
    if (const auto shown = all_shown_at(f))
        return wait(reason::waiting_settle, "a user that was just created may still appear in the list",
                    shown);
    // ask even when the record says never sent: it may have been restored from a backup
    const bool remote = std::ranges::any_of(f.have->generations, [&](const generation& g) {
        return !g.missing_since || !users_with_key(f, g).empty();
    });
    return act(f, remote ? action_kind::remove : action_kind::forget, reason::not_in_file,
               f.leaving && f.leaving->at_once ? why : why + ", and retire_after has passed");
}

std::optional<finding> wanted_again(const facts& f)
{
    if (!f.have || !f.have->unwanted_since) return std::nullopt;
    return act(f, action_kind::mark_wanted, reason::named_again,
               "in the configuration again before it was deleted");
}

// ---- the certificate in use and its files

std::optional<finding> hooks_pending(const facts& f)
{
    if (!f.current || f.current->deployed_at) return std::nullopt;
    const auto at = not_before(f.have->deploy_failure, f.wanted_fingerprint, f.now);
    if (at && *at > f.now && !f.options.ignore_backoff) return std::nullopt;
    return act(f, action_kind::deploy, reason::hooks_pending,
               "the certificate is in place, but its hooks have not succeeded yet", f.current);
}

// Other failures do not delay this repair; only a failure of this host does.
std::optional<finding> output_differs(const facts& f)
{
    if (!f.current || !f.current->key_on_disk) return std::nullopt;
    if (f.have->failure && is_local(f.have->failure->code) && backing_off(f)) return std::nullopt;
    switch (f.have->output) {
        case output_condition::sound:
            return std::nullopt;
        case output_condition::changed:
            return act(f, action_kind::publish, reason::output_changed, "its output configuration changed",
                       f.current);
        case output_condition::missing:
            return act(f, action_kind::publish, reason::output_missing, f.have->output_detail, f.current);
        case output_condition::damaged:
        case output_condition::foreign:
            return act(f, action_kind::publish, reason::output_damaged, f.have->output_detail, f.current);
    }
    return std::nullopt;
}

// ---- a generation under way

std::optional<finding> pending_without_key(const facts& f)
{
    if (!f.pending || f.pending->key_on_disk) return std::nullopt;
    return act(f, action_kind::abandon, reason::key_lost, lost_pair(*f.pending), f.pending);
}

// Gives up a generation. Its key is deleted at once only if the platform certainly does not know it, whatever
// the record says: the record may have been restored from a backup.
finding give_up(const facts& f, const generation& g, std::string sentence)
{
    const bool asked = f.seen && f.seen->is_complete() && f.seen->instances.size() == 1 &&
                       f.seen->instances.front().status == remote_status::ready;
    const bool unknown = asked && !g.submitted_at && users_with_key(f, g).empty();
    return act(f, unknown ? action_kind::discard : action_kind::abandon, reason::outdated,
               std::move(sentence), &g);
}

// A rollback holds: a generation that was under way is no longer wanted.
std::optional<finding> pending_held_back(const facts& f)
{
    if (!f.pending || !f.current || f.have->held != f.current->id || need(f)) return std::nullopt;
    return give_up(f, *f.pending, "a person returned to the previous certificate");
}

finding adopt(const facts& f, const generation& g, const remote_user& user)
{
    auto found = act(f, action_kind::adopt, reason::found_by_marker,
                     "found user " + user.id + " on the platform with our marker and key", &g);
    found.act->remote_id = user.id;
    return found;
}

// Find out whether it was sent and what became of it before doing anything else.
std::optional<finding> pending_unknown(const facts& f)
{
    if (!f.pending || !f.pending->remote_id.empty()) return std::nullopt;
    const auto& g = *f.pending;
    if (const auto users = users_with_key(f, g); !users.empty()) return adopt(f, g, *users.front());
    const bool sent = g.submitted_at && !g.answered;
    if (sent) {
        const auto settled = *g.submitted_at + f.wanted.reconcile.settle;
        if (!f.seen || f.seen->observed_at < settled || !f.seen->is_complete()) {
            auto found = wait(reason::waiting_settle, "no answer to its creation; looking for it in the list",
                              std::max(settled, f.now + duration(1)));
            found.polls = true;
            return found;
        }
    }
    if (const auto changed = difference(f, g))
        return give_up(f, g, "the configuration changed before it was created: " + changed->second);
    return act(f, action_kind::submit, sent ? reason::unanswered : reason::not_submitted,
               sent ? "no answer to its creation, and it is not in the list: sending the same request again"
                    : "its key and signing request are stored but not sent yet",
               &g);
}

// The id in an answer is only a claim. A READY user is identified by the key in its certificate,
// any other by its marker.
std::optional<finding> pending_misnamed(const facts& f)
{
    if (!f.pending || f.pending->certificate) return std::nullopt;
    const auto& g = *f.pending;
    const auto* user = listed(f, g);
    if (!user || !user->mark || user->status == remote_status::ready ||
        carries_marker(*user, f.owner, f.have->name, g))
        return std::nullopt;
    if (const auto users = users_with_key(f, g); !users.empty()) return adopt(f, g, *users.front());
    auto found = act(f, action_kind::disown, reason::misnamed,
                     "the platform returned user " + g.remote_id + ", which does not have our marker", &g);
    found.act->remote_id = g.remote_id;
    return found;
}

std::optional<finding> pending_gone(const facts& f)
{
    if (!f.pending || !f.seen || !f.seen->confirmed_missing.contains(f.pending->remote_id))
        return std::nullopt;
    if (const auto users = users_with_key(f, *f.pending); !users.empty() && !f.pending->certificate)
        return adopt(f, *f.pending, *users.front());
    if (may_show_up(f, *f.pending)) {
        auto found = wait(reason::waiting_settle, "the platform does not show it yet", f.now + duration(1));
        found.polls = true;
        return found;
    }
    return act(f, action_kind::mark_missing, reason::lost_remote, "its user was deleted on the platform",
               f.pending);
}

std::optional<finding> pending_outdated(const facts& f)
{
    if (!f.pending) return std::nullopt;
    const auto changed = difference(f, *f.pending);
    if (!changed) return std::nullopt;
    return act(f, action_kind::abandon, reason::outdated,
               "the configuration changed before it was in use: " + changed->second, f.pending);
}

std::optional<finding> pending_issued(const facts& f)
{
    if (!f.pending || f.pending->certificate) return std::nullopt;
    const auto& g = *f.pending;
    const auto* user = listed(f, g);
    const bool ready = user && user->status == remote_status::ready;
    if (user && user->status == remote_status::failed)
        return act(f, action_kind::abandon, reason::issue_failed,
                   "the platform reports " + user->status_text + " for user " + user->id, &g);
    const bool unusable = ready && f.have->failure && f.have->failure->code == errc::bad_answer;
    const auto since = g.accepted_at.value_or(g.created_at);
    if (f.seen && (!ready || unusable) && f.now - since >= limits::abandon_after)
        return act(f, action_kind::abandon, reason::never_ready, "the platform did not issue it within 24 h",
                   &g);
    if (ready) return act(f, action_kind::collect, reason::ready, "certificate issued", &g);
    auto found =
        wait(reason::waiting_ready,
             "the platform has not issued it yet" +
                 (user && !user->status_text.empty() ? " (" + user->status_text + ")" : std::string()),
             since + limits::abandon_after);
    found.polls = true;
    return found;
}

std::optional<finding> pending_too_early(const facts& f)
{
    if (!f.pending || f.pending->certificate->not_before <= f.now) return std::nullopt;
    const auto from = f.pending->certificate->not_before;
    return wait(reason::waiting_ready, "its certificate is valid from " + format_utc(from), from);
}

std::optional<finding> pending_unverified(const facts& f)
{
    if (!f.pending || !f.want->verify || f.pending->verified_at) return std::nullopt;
    return act(f, action_kind::verify, reason::not_verified,
               "the broker has not accepted its certificate yet", f.pending);
}

std::optional<finding> pending_unpublished(const facts& f)
{
    if (!f.pending) return std::nullopt;
    return act(f, action_kind::publish, reason::not_published, "certificate issued, not in use yet",
               f.pending);
}

// ---- a new generation

std::optional<finding> current_gone(const facts& f)
{
    if (!f.current || f.current->missing_since || !f.seen ||
        !f.seen->confirmed_missing.contains(f.current->remote_id))
        return std::nullopt;
    return act(f, action_kind::mark_missing, reason::lost_remote, "its user was deleted on the platform",
               f.current);
}

// A person must look at a rejected certificate before another one is created;
// only the imminent expiry of the one in use overrides that.
bool in_its_last_tenth(const generation& g, instant now)
{
    if (!g.certificate) return true;
    const auto lifetime = g.certificate->expiry() - g.certificate->not_before;
    return g.certificate->expiry() - now < lifetime / 10;
}

std::optional<finding> unfit_before(const facts& f)
{
    if (!f.have || f.have->generations.empty() || f.have->rotate_asked_at) return std::nullopt;
    const auto& newest = f.have->generations.back();
    if (newest.quarantine.empty() || (f.current && in_its_last_tenth(*f.current, f.now))) return std::nullopt;
    return block(reason::quarantined,
                 "cannot use the certificate of user " + newest.remote_id + ": " + newest.quarantine +
                     "; check that user on the platform, then run: exposure-agent rotate " +
                     f.have->name.text());
}

int created_lately(const facts& f)
{
    if (!f.have) return 0;
    return static_cast<int>(std::ranges::count_if(
        f.have->creations, [&](instant at) { return f.now - at < limits::creation_window; }));
}

bool must_release_first(const facts& f)
{
    return f.want->rotation.strategy == strategy::replace && f.current && !f.current->missing_since &&
           !f.current->remote_id.empty();
}

// Changing only the owner would create users and never delete the old ones: a person must confirm it.
bool only_owner_changed(const facts& f, reason why)
{
    if (why != reason::description_changed || f.options.accept_loss) return false;
    const auto before = find_marker(f.current->sent.description);
    return before && before->owner != f.owner;
}

std::optional<finding> needs_new(const facts& f)
{
    const auto needed = need(f);
    if (!needed || f.pending) return std::nullopt;
    const auto& [why, sentence] = *needed;
    if (only_owner_changed(f, why))
        return block(reason::owner_changed,
                     sentence +
                         "; this creates the user again and leaves the old one on the platform. Restore "
                         "owner, or run: exposure-agent reconcile --accept-loss");
    const bool asked = f.have && f.have->rotate_asked_at.has_value();
    if (f.current && is_paused(f) && !asked)
        return block(reason::paused,
                     sentence + ", but rotation.paused is true; unset it, or run: exposure-agent rotate " +
                         f.have->name.text());
    const bool spent_before =
        f.have && f.have->blocked && f.have->blocked->reason == word_of(reason::budget_spent);
    if (!asked && (spent_before || created_lately(f) >= f.wanted.reconcile.max_creates_per_user))
        return block(reason::budget_spent,
                     sentence + ", but reconcile.max_creates_per_user (" +
                         std::to_string(f.wanted.reconcile.max_creates_per_user) +
                         " in 24 h) is used up; find out why, then run: exposure-agent rotate " +
                         name_of(f).text());
    if (must_release_first(f) && !is_ours(f, *f.current))
        return block(
            reason::strategy_replace,
            sentence + ", but user " + f.current->remote_id +
                (f.current->imported ? " was imported without --retire, so it is not deleted; delete it "
                                     : " no longer has our marker, so it is not deleted; delete it ") +
                "on the platform, or set rotation.strategy: overlap");
    if (must_release_first(f))
        return act(f, action_kind::delete_before_replace, reason::strategy_replace,
                   sentence + "; the old user is deleted first (rotation.strategy: replace)", f.current);
    return act(f, action_kind::issue, why, sentence);
}

// Steps that need neither a back-off nor the platform come first: the certificate in use is maintained no
// matter what else is wrong.
constexpr std::array<check, 19> chain = {
    unreadable,           // its record is unreadable
    unwanted,             // not in the configuration
    wanted_again,         // back in the configuration
    hooks_pending,        // published, hooks not passed
    output_differs,       // published directory damaged or differently configured
    backing_off,          // the last attempt failed
    pending_without_key,  // its private key is missing or damaged
    pending_held_back,    // a rollback restored the previous certificate
    pending_unknown,      // sent or not: adopt, wait or submit
    pending_misnamed,     // the answer named a user that is not ours
    pending_gone,         // deleted by someone else while it was under way
    pending_outdated,     // the configuration changed meanwhile
    pending_issued,       // wait or collect
    pending_too_early,    // not valid yet
    pending_unverified,   // verify
    pending_unpublished,  // publish
    current_gone,         // deleted by someone else
    unfit_before,         // the last certificate failed our checks
    needs_new,            // none, requested, changed, due or expired
};

}  // namespace

finding next_step(const facts& f)
{
    for (const auto rule : chain)
        if (auto found = rule(f)) return *found;
    return wait(reason::healthy, stands(f), due_at(f));
}

// ---- cleanup

namespace {

// When its first successor was in use with all hooks passed.
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
                     "user " + id + " is a duplicate for generation " + g.id, &g);
    found.act->remote_id = id;
    return found;
}

// Users with this generation's key other than the one it has recorded.
void add_surplus(const facts& f, const generation& g, std::vector<finding>& found)
{
    for (const auto* user : users_with_key(f, g)) {
        if (user->id == g.remote_id) continue;
        // a marker can be copied, a key cannot: the certificate tells whose user it is
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
    // Believed gone, but listed again: keep the key until the user is certainly deleted.
    if (g.missing_since && listed(f, g)) return surplus(f, g, g.remote_id);
    return act(f, action_kind::retire, reason::superseded,
               "generation " + g.id + " was replaced, and its successor is in use", &g);
}

bool failed_here(const std::optional<failure_memory>& memory)
{
    return memory && is_local(memory->code);
}

// The certificate in use is intact, its hooks have passed and the disk has recorded that,
// so its predecessors are no longer needed.
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
    if (const auto at = not_before(f.have->clear_failure, f.wanted_fingerprint, f.now);
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
