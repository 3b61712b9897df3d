#include "tests/policy/model/laws.hpp"

#include "policy/limits.hpp"

#include <algorithm>

namespace model {
namespace {

bool is_unfinished(const policy::stored_user& user, const policy::generation& g)
{
    return g.id != user.current && !g.published_at && !g.abandoned && !g.missing_since &&
           g.quarantine.empty();
}

const policy::desired_user* wanted(const policy::desired_state& file, const user_name& name)
{
    for (const auto& e : file.exposures)
        for (const auto& u : e.users)
            if (e.name == name.exposure && u.name == name.user) return &u;
    return nullptr;
}

}  // namespace

void laws::broken(const std::string& law) const
{
    throw broken_law(law);
}

void laws::check() const
{
    for (const auto& [directory, pair] : w_.files.links) {
        if (pair.key != pair.certificate.key)
            broken("I1: the published pair in " + directory + " does not match");
        // Directory named in the file only briefly, and the agent was killed in between: nobody manages it.
        if (std::ranges::none_of(w_.files.records, [&](const auto& record) {
                return record.second.entry.directory == directory;
            }))
            continue;
        const auto deleted = w_.deleted_by_us.find(pair.certificate.remote_id);
        if (deleted != w_.deleted_by_us.end() && deleted->second != "delete_before_replace" &&
            deleted->second != "remove")
            broken("I1: " + directory + " holds the certificate of user " + deleted->first +
                   ", which we deleted (" + deleted->second + ")");
    }
    for (const auto& u : w_.users) {
        if (u.key.empty() || u.keyless) continue;
        const auto key = w_.files.keys.find({u.name, policy::generation_id(u.key)});
        if (key == w_.files.keys.end() || key->second != u.key)
            broken("I2: user " + u.shown.id + " of " + u.name.text() + " is there, its key is not");
    }
    for (const auto& [name, record] : w_.files.records) {
        const auto unfinished = std::ranges::count_if(
            record.generations, [&](const policy::generation& g) { return is_unfinished(record, g); });
        if (unfinished > 1) broken("I5: " + name.text() + " has more than one unfinished generation");
    }
}

void laws::on_post(const user_name& name, const policy::generation& g, const policy::observed_exposure* seen)
{
    const auto key = w_.files.keys.find({name, g.id});
    if (key == w_.files.keys.end() || key->second != g.fingerprint)
        broken("I2: a POST without its key on disk: " + name.text());
    const auto record = w_.files.records.find(name);
    const auto* kept = record == w_.files.records.end() ? nullptr : record->second.find(g.id);
    if (!kept || !kept->submitted_at) broken("I2: a POST without its intent on disk: " + name.text());
    if (!kept->remote_id.empty()) broken("I3: a POST for a user whose id is known: " + name.text());
    if (w_.files.cloned) broken("S0: a POST of a cloned agent");

    const auto before = sent_.find(g.fingerprint);
    if (before == sent_.end()) {
        check_budget(name, g.created_at);
    } else {
        if (before->second.sent != g.sent) broken("I3: the same key, another request: " + name.text());
        const bool looked = seen && !seen->error && seen->is_complete() &&
                            seen->observed_at >= before->second.at + w_.desired.reconcile.settle;
        if (!before->second.certainly_nothing && !looked)
            broken("I3: a POST is repeated before the list was silent for the settle time: " + name.text());
        for (const auto& user : seen ? seen->users : std::vector<policy::remote_user>())
            if (user.mark && user.mark->owner == "web-01" &&
                user.mark->key == policy::marker_key(g.fingerprint))
                broken("I3: a POST is repeated although the list shows its user: " + name.text());
    }
    sent_[g.fingerprint] = {.sent = g.sent, .at = *kept->submitted_at};
}

void laws::on_post_result(const policy::generation& g, bool certainly_nothing)
{
    if (const auto found = sent_.find(g.fingerprint); found != sent_.end())
        found->second.certainly_nothing = certainly_nothing;
}

void laws::rotated(const user_name& name)
{
    creations_.erase(name);
    rotated_[name] = w_.agent_now();
}

// The first POST of a key creates a user. The budget counts these since the operator last ran `rotate`.
void laws::check_budget(const user_name& name, instant made)
{
    if (const auto at = rotated_.find(name); at != rotated_.end() && made <= at->second) return;
    auto& lately = creations_[name];
    const auto now = w_.agent_now();
    std::erase_if(lately, [&](instant at) { return now - at >= policy::limits::creation_window; });
    if (static_cast<int>(lately.size()) >= w_.desired.reconcile.max_creates_per_user)
        broken("I5: the budget of " + name.text() + " is exceeded");
    lately.push_back(made);
}

void laws::on_onboard(const policy::stored_exposure& record) const
{
    if (!record.where.instance_id.empty())
        broken("I8: an instance is asked for although " + record.where.instance_id +
               " is known: " + record.name);
    if (w_.files.cloned) broken("S0: a cloned agent asks for an instance");
}

void laws::on_publish(const user_name& name, const certificate_file& c) const
{
    if (c.facts.not_before > std::max(w_.agent_now(), w_.now))
        broken("S12: a certificate is used before it is valid: " + name.text());
}

void laws::on_plan(const policy::plan_result& plan, const policy::stored_state& memory, instant now,
                   const policy::desired_state& file) const
{
    for (const auto& a : plan.actions)
        if (a.kind == policy::action_kind::retire || a.kind == policy::action_kind::retire_surplus)
            check_retirement(a, memory.users.at(a.name), wanted(file, a.name));
    if (plan.wake_at <= now) broken("wake_at is not in the future");
    if (plan.wake_at > now + file.reconcile.interval) broken("wake_at is later than the interval");
    for (const auto& view : plan.users)
        if (view.blocked && (view.sentence.empty() || view.why == policy::reason::healthy))
            broken("I10: " + view.name.text() + " is blocked and does not say why");
    const auto removals =
        std::ranges::count(plan.actions, policy::action_kind::remove, &policy::action::kind);
    if (removals > file.reconcile.max_deletes) broken("I4: more removals than max_deletes");
}

void laws::check_retirement(const policy::action& a, const policy::stored_user& record,
                            const policy::desired_user* want) const
{
    const auto who = a.name.text() + " " + a.generation;
    const auto* current = record.find(record.current);
    const auto* g = record.find(a.generation);
    if (!want) broken("I4: a retirement for a user that is not in the file: " + who);
    if (!current || !g) broken("I4: a retirement of what is not there: " + who);
    if (!current->deployed_at) broken("I4: a retirement before the successor's hooks have passed: " + who);
    const bool surplus = a.kind == policy::action_kind::retire_surplus && a.remote_id != g->remote_id;
    if (g == current && !surplus) broken("I4: the one in use is retired: " + who);
    const bool at_once = surplus || record.retire_now || !g->published_at || g->missing_since;
    // counted from its own successor, which may not be the one in use
    const auto in_time = [&](const policy::generation& other) {
        const bool after = &other == current || (other.deployed_at && *other.deployed_at >= *g->published_at);
        return &other != g && after && w_.agent_now() >= *other.deployed_at + want->rotation.retire_after;
    };
    if (!at_once && std::ranges::none_of(record.generations, in_time))
        broken("I4: a retirement before retire_after: " + who);
    if (!surplus && !g->quarantine.empty() && g == &record.generations.back())
        broken("I4: a user that waits for a person's look is retired: " + who);
}

void laws::on_delete(const cloud_user& u, const policy::action& a, const policy::stored_state& memory,
                     const policy::desired_state& file, const policy::observed_state& seen) const
{
    const auto who = u.shown.id + " (" + u.shown.description + ")";
    if (u.key.empty()) broken("I4: a stranger is deleted: " + who);
    const bool marked = u.shown.mark && u.shown.mark->owner == "web-01" && u.shown.mark->name == a.name;
    const bool cut = !u.shown.mark && w_.cut_descriptions_at != 0 &&
                     u.shown.description.find("[exposure-agent ") != std::string::npos;
    if (!marked && !cut) broken("I4: a user without our mark is deleted: " + who);
    const auto record = memory.users.find(a.name);
    if (record == memory.users.end() ||
        std::ranges::find(record->second.generations, u.key, &policy::generation::fingerprint) ==
            record->second.generations.end())
        broken("I8: a user is deleted whose key we do not hold: " + who);
    if (w_.files.cloned) broken("S0: a deletion of a cloned agent: " + who);
    const auto* g = record->second.find(policy::generation_id(u.key));
    const auto clock = seen.clock_ahead.find(g->where.base_url);
    if (clock != seen.clock_ahead.end() && std::chrono::abs(clock->second) > policy::limits::clock_skew)
        broken("S0: a deletion while the clock is known to be wrong: " + who);

    const auto* want = wanted(file, a.name);
    if (a.kind == policy::action_kind::remove) {
        if (want || !file.reconcile.prune) broken("I4: a wanted user is removed: " + who);
        const auto& since = record->second.unwanted_since;
        if (!since || w_.agent_now() < *since + record->second.entry.retire_after)
            broken("I4: a removal before retire_after: " + who);
        return;
    }
    if (!want) broken("I4: a deletion for a user that is not in the file: " + who);
    const auto looked = seen.exposures.find(a.name.exposure);
    if (looked == seen.exposures.end() || looked->second.error || looked->second.instances.size() != 1)
        broken("I4: a deletion without a good look: " + who);
    const auto link = w_.files.links.find(want->output.directory);
    const bool in_use = link != w_.files.links.end() && link->second.certificate.remote_id == u.shown.id;
    if (a.kind != policy::action_kind::delete_before_replace) {
        if (in_use) broken("I4: the user of the certificate in use is deleted: " + who);
        return;
    }
    if (want->rotation.strategy != policy::strategy::replace) broken("I4: a release without replace: " + who);
    if (want->rotation.paused && !record->second.rotate_asked_at)
        broken("I4: a release while paused: " + who);
}

}  // namespace model
