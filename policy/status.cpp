#include "policy/status.hpp"

#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/naming.hpp"
#include "policy/plan.hpp"

#include <algorithm>

namespace policy {
namespace {

// Failures from before the user was removed from the configuration do not matter for its deletion.
void judge_failures(user_status& s, const stored_user& have)
{
    for (const auto* memory : {&have.failure, &have.deploy_failure, &have.clear_failure}) {
        if (!*memory || (have.unwanted_since && (*memory)->last <= *have.unwanted_since)) continue;
        s.failures += (*memory)->count;
        if (s.last_error.empty()) s.last_error = (*memory)->sentence;
        if ((*memory)->next_attempt && (!s.next_attempt || *(*memory)->next_attempt < *s.next_attempt))
            s.next_attempt = (*memory)->next_attempt;
    }
}

deploy_state deploy_of(const facts& f)
{
    const auto& hooks = f.want ? f.want->hooks : f.have->entry.hooks;
    if (!f.current || (hooks.empty() && f.current->deployed_at)) return deploy_state::none;
    if (f.current->deployed_at) return deploy_state::done;
    return f.have->deploy_failure ? deploy_state::failed : deploy_state::pending;
}

// A user created for another owner is never deleted, so its deletion is not announced.
bool is_of_another_owner(const facts& f, const generation& g)
{
    const auto mark = find_marker(g.sent.description);
    return mark && mark->owner != f.owner;
}

std::vector<retiring_user> retiring_of(const facts& f)
{
    std::vector<retiring_user> found;
    for (const auto& g : f.have->generations) {
        if (g.remote_id.empty() || g.missing_since || g.kept || is_of_another_owner(f, g)) continue;
        std::optional<instant> at;
        if (!f.want && f.have->unwanted_since && !f.have->blocked)
            at = f.leaving && f.leaving->at_once ? f.now
                                                 : *f.have->unwanted_since + f.have->entry.retire_after;
        else if (f.want && is_left_over(f, g) && f.current && f.current->deployed_at)
            at = retires_at(f, g);
        if (at) found.push_back({g.remote_id, g.sent.common_name, *at});
    }
    return found;
}

void set(user_status& s, user_state state, reason why, std::string sentence, bool attention)
{
    s.state = state;
    s.reason = word_of(why);
    s.sentence = std::move(sentence);
    s.attention = attention;
}

bool waits_for_person(const std::optional<failure_memory>& memory)
{
    return memory && memory->kind != retry::later;
}

// Most pressing first.
void judge_state(user_status& s, const facts& f, const stored_exposure* exposure)
{
    const auto* have = f.have;
    const bool unreachable = exposure && exposure->failure;
    const bool expired = f.current && f.current->certificate && f.current->certificate->expiry() <= f.now;
    if (have && !have->unreadable.empty())
        return set(s, user_state::blocked, reason::record_unreadable, have->unreadable, true);
    if (!f.want && f.wanted.reconcile.prune && !(have->blocked))
        return set(s, user_state::removing, reason::not_in_file,
                   f.leaving ? "this host is being decommissioned" : "no longer in the configuration", false);
    if (have && have->blocked) {
        set(s, user_state::blocked, reason::healthy, have->blocked->sentence,
            have->blocked->reason != word_of(reason::paused));
        s.reason = have->blocked->reason;
        return;
    }
    if (exposure && exposure->blocked && !f.current) {
        set(s, user_state::blocked, reason::healthy, exposure->blocked->sentence, true);
        s.reason = exposure->blocked->reason;
        return;
    }
    if (have && waits_for_person(have->failure)) {
        set(s, user_state::blocked, reason::backing_off, have->failure->sentence, true);
        s.reason = word_of(have->failure->code);
        return;
    }
    if (expired)
        return set(s, user_state::expired, reason::expired,
                   "its certificate expired at " + format_utc(f.current->certificate->expiry()), true);
    if (have && (have->failure || have->deploy_failure)) {
        const auto& memory = have->failure ? have->failure : have->deploy_failure;
        set(s, user_state::failing, reason::backing_off, memory->sentence, true);
        s.reason = word_of(memory->code);
        return;
    }
    const bool due = s.due_at && *s.due_at <= f.now;
    if (unreachable && (!f.current || due)) {
        set(s, f.current || f.pending ? user_state::failing : user_state::absent, reason::unreachable,
            exposure->failure->sentence, true);
        s.last_error = exposure->failure->sentence;
        s.next_attempt = exposure->failure->next_attempt;
        return;
    }
    if (f.current && !f.current->key_on_disk)
        return set(s, user_state::failing, reason::key_lost,
                   lost_pair(*f.current) + "; the next pass issues a new one", true);
    if (f.pending)
        return set(s, user_state::issuing, reason::waiting_ready, "a new certificate is being issued", false);
    if (!f.current) return set(s, user_state::absent, reason::absent, "no certificate yet", true);
    if (due)
        return set(s, user_state::due, reason::rotation_due,
                   "due for rotation since " + format_utc(*s.due_at), false);
    if (have->output != output_condition::sound && have->output != output_condition::changed)
        return set(s, user_state::failing, reason::output_damaged, have->output_detail, true);
    set(s, user_state::valid, reason::healthy, stands(f), false);
}

std::string directory_of(const facts& f)
{
    if (f.want) return f.want->output.directory;
    return f.have ? f.have->entry.directory : "";
}

user_status stand(const user_index& all, const user_name& name, instant now)
{
    const auto f = join(all, name, now, {});
    const auto exposure = all.stored.exposures.find(name.exposure);
    user_status s{.name = name, .directory = directory_of(f), .current = f.current, .pending = f.pending};
    s.wanted = f.want != nullptr;
    s.warning = lead_warning(f).value_or("");
    if (f.have) {
        s.due_at = due_at(f);
        if (!is_paused(f)) s.rotate_at = s.due_at;
        s.deploy = deploy_of(f);
        s.retiring = retiring_of(f);
        judge_failures(s, *f.have);
    }
    judge_state(s, f, exposure == all.stored.exposures.end() ? nullptr : &exposure->second);
    return s;
}

}  // namespace

std::string tally::sentence() const
{
    auto text = std::to_string(up_to_date) + " of " + count(wanted, "user") + " up to date";
    if (paused) text += ", " + std::to_string(paused) + " paused";
    if (removing) text += ", " + std::to_string(removing) + " being removed";
    if (kept) text += ", " + std::to_string(kept) + " no longer in the configuration";
    return text;
}

tally tally_of(const std::vector<user_status>& users)
{
    tally all;
    for (const auto& s : users) {
        if (!s.wanted) {
            ++(s.state == user_state::removing ? all.removing : all.kept);
            continue;
        }
        ++all.wanted;
        if (s.state == user_state::valid && !s.attention) ++all.up_to_date;
        if (s.state == user_state::blocked && s.reason == word_of(reason::paused)) ++all.paused;
    }
    return all;
}

std::string owner_change::sentence() const
{
    return "owner changed: " + before + " → " + after + "; this creates " + count(users, "user") +
           " again and leaves the old " + (users == 1 ? "one" : "ones") + " on the platform";
}

std::optional<owner_change> changed_owner(const desired_state& desired, const stored_state& stored)
{
    owner_change change{.before = {}, .after = desired.owner.value_or(stored.owner), .users = 0};
    for (const auto& [name, user] : stored.users) {
        const auto* current = user.find(user.current);
        const auto mark = current ? find_marker(current->sent.description) : std::nullopt;
        if (!mark || mark->owner == change.after) continue;
        change.before = mark->owner;
        ++change.users;
    }
    return change.users ? std::optional(change) : std::nullopt;
}

namespace {

std::vector<user_status> stand_all(const desired_state& desired, const stored_state& stored, instant now)
{
    const observed_state nothing_seen;
    const user_index all(desired, nothing_seen, stored);
    std::vector<user_status> found;
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users)
            found.push_back(stand(all, {exposure.name, user.name}, now));
    for (const auto& [name, user] : stored.users)
        if (!all.wanted(name)) found.push_back(stand(all, name, now));
    return found;
}

}  // namespace

std::vector<user_status> statuses(const desired_state& desired, const stored_state& stored, instant now)
{
    return stored.leaving ? stand_all(leaving_state(desired), stored, now) : stand_all(desired, stored, now);
}

}  // namespace policy
