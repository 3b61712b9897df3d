#include "policy/limits.hpp"
#include "tests/policy/model/agent.hpp"
#include "tests/support/action_words.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

// Mirrors agent/reconcile/execute*.cpp and the rollback of agent/service/operations.cpp.

namespace model {
namespace {

using policy::action;
using policy::action_kind;
using policy::errc;
using policy::failure;
using policy::retry;

std::string fingerprint_of(int serial)
{
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(), "%08x%056x", static_cast<unsigned>(serial), 0u);
    return text.data();
}

bool refused_for_certain(errc code)
{
    return code == errc::refused || code == errc::forbidden || code == errc::not_found ||
           code == errc::throttled || code == errc::unauthorized;
}

bool is_on_its_way(const policy::stored_user& user)
{
    return std::ranges::any_of(user.generations, [&](const policy::generation& g) {
        return g.id != user.current && !g.published_at && !g.abandoned && !g.missing_since &&
               g.quarantine.empty();
    });
}

}  // namespace

agent::outcome agent::perform(const action& a)
{
    switch (a.kind) {
        case action_kind::onboard:
            return onboard(a);
        case action_kind::remember_instance:
            return remember_instance(a);
        case action_kind::forget_instance:
            return forget_instance(a);
        case action_kind::issue:
            return issue(a);
        case action_kind::submit:
            return submit(a.name, a.generation);
        case action_kind::adopt:
            return adopt(a);
        case action_kind::collect:
            return collect(a);
        case action_kind::prove:
            return prove(a);
        case action_kind::publish:
            return publish(a);
        case action_kind::deploy:
            return deploy(a);
        case action_kind::delete_before_replace:
            return release(a);
        case action_kind::retire:
        case action_kind::retire_surplus:
            return retire(a);
        case action_kind::remove:
            return remove(a);
        case action_kind::forget:
            return forget(a);
        default:
            return note(a);
    }
}

agent::outcome agent::note(const action& a)
{
    auto& record = user(a.name);
    if (a.kind == action_kind::abandon) generation(a).abandoned = true;
    if (a.kind == action_kind::mark_missing) generation(a).missing_since = now();
    if (a.kind == action_kind::mark_unwanted) record.unwanted_since = now();
    if (a.kind == action_kind::mark_wanted) record.unwanted_since.reset();
    if (a.kind == action_kind::discard)
        std::erase_if(record.generations, [&](const auto& g) { return g.id == a.generation; });
    auto saved = save(a.name);
    if (!saved || a.kind != action_kind::discard) return saved;
    return effect("erase key", a.generation, [&] { w_.files.keys.erase({a.name, a.generation}); });
}

agent::outcome agent::issue(const action& a)
{
    const auto& e = *exposure(a.name.exposure);
    const auto& want = *wanted(a.name);
    const auto key = fingerprint_of(++w_.serial);
    const policy::marker mark{.owner = stored_.owner, .name = a.name, .key = policy::marker_key(key)};
    const auto id = policy::generation_id(key);
    const policy::generation fresh{
        .id = id,
        .fingerprint = key,
        .where = {e.base_url, e.variant, e.tenant, exposure_record(e).where.instance_id},
        .sent = {.common_name = policy::common_name(e.variant, e.tenant, want.name, id),
                 .description = policy::describe(want.description, mark),
                 .contact = want.contact,
                 .consumer_group = want.consumer_group,
                 .key = want.key,
                 .encoding = e.encoding},
        .created_at = now()};
    auto kept = effect("write key", fresh.id, [&] {
        const auto record = w_.files.records.find(a.name);
        std::erase_if(w_.files.keys, [&](const auto& file) {
            return file.first.first == a.name &&
                   (record == w_.files.records.end() || !record->second.find(file.first.second));
        });
        w_.files.keys[{a.name, fresh.id}] = fresh.fingerprint;
    });
    if (!kept) return kept;

    auto& record = user(a.name);
    record.generations.push_back(fresh);
    std::erase_if(record.creations,
                  [&](instant at) { return now() - at >= policy::limits::creation_window; });
    record.creations.push_back(now());
    record.retire_now = record.retire_now && record.rotate_asked_at;
    record.rotate_asked_at.reset();
    record.held.clear();
    record.blocked.reset();
    record.deploy_reason = policy::word_of(a.why);
    if (auto saved = save(a.name); !saved) {
        std::erase_if(user(a.name).generations, [&](const auto& g) { return g.id == fresh.id; });
        return saved;
    }
    return submit(a.name, fresh.id);
}

agent::outcome agent::submit(const user_name& name, const std::string& id)
{
    const auto& e = *exposure(name.exposure);
    if (!w_.files.keys.contains({name, id}))
        return failure{.code = errc::disk, .context = "no CSR", .kind = retry::never};
    const auto before = *user(name).find(id);
    auto* g = user(name).find(id);
    g->submitted_at = now();
    g->answered = false;
    g->where.instance_id = exposure_record(e).where.instance_id;
    if (auto saved = save(name); !saved) {
        *user(name).find(id) = before;
        return saved;
    }
    const auto sent = *user(name).find(id);
    const auto seen = observed_.exposures.find(name.exposure);
    const auto created = cloud_.create_user(
        place_of(e), sent.where.instance_id, name, sent.sent, sent.fingerprint,
        [&] { laws_.on_post(name, sent, seen == observed_.exposures.end() ? nullptr : &seen->second); });
    if (created || !policy::never_sent(created.error()))
        laws_.on_post_result(sent, !created && refused_for_certain(created.error().code));
    if (w_.loud)
        w_.say("  POST " + sent.id + (created ? " -> " + *created : " -> " + created.error().context));
    point("POST", name.user);
    g = user(name).find(id);
    g->submitted_at = now();
    if (created && !created->empty()) {
        g->remote_id = *created;
        g->accepted_at = now();
        g->answered = true;
        user(name).failure.reset();
    } else if (!created && policy::never_sent(created.error())) {
        g->submitted_at = before.submitted_at;
        g->answered = before.answered;
    } else if (!created) {
        g->answered = refused_for_certain(created.error().code);
    }
    if (auto saved = save(name); !saved) return saved;
    if (!created) return created.error();
    return {};
}

agent::outcome agent::adopt(const action& a)
{
    auto& g = generation(a);
    g.remote_id = a.remote_id;
    g.accepted_at = now();
    user(a.name).failure.reset();
    return save(a.name);
}

agent::outcome agent::collect(const action& a)
{
    const auto g = generation(a);
    auto detail = cloud_.read_user(place_of(g.where), g.where.instance_id, g.remote_id);
    point("GET", a.name.user);
    if (!detail) return detail.error();
    if (!detail->certificate)
        return failure{.code = errc::bad_answer, .context = "READY without a certificate"};
    const auto certificate = *detail->certificate;
    std::string why;
    if (certificate.key != g.fingerprint) why = "its public key is not ours";
    if (certificate.facts.not_after <= now()) why = "it has expired already";
    if (!why.empty()) {
        generation(a).quarantine = why;
        if (auto saved = save(a.name); !saved) return saved;
        return failure{.code = errc::unusable_certificate, .context = why, .kind = retry::never};
    }
    auto kept = effect("write certificate", g.id, [&] {
        w_.files.certificates[{a.name, g.id}] = certificate;
    });
    if (!kept) return kept;
    auto& record = generation(a);
    record.certificate = certificate.facts;
    record.collected_at = now();
    record.proven = policy::proof::local;
    user(a.name).failure.reset();
    return save(a.name);
}

agent::outcome agent::prove(const action& a)
{
    point("probe", a.name.user);
    const auto* current = user(a.name).find(user(a.name).current);
    const bool in_use_expired = current && current->certificate && current->certificate->expiry() <= now();
    const bool down = w_.random.chance(w_.sky.broker_down);
    const bool refused = !down && w_.random.chance(w_.sky.broker_refuses);
    if ((!down && !refused) || (down && in_use_expired)) {
        auto& record = generation(a);
        record.proven = down ? policy::proof::local : policy::proof::broker;
        record.proven_at = now();
        user(a.name).failure.reset();
        return save(a.name);
    }
    const auto& g = generation(a);
    const bool interactive = g.collected_at && now() - *g.collected_at < policy::limits::probe_patience;
    return failure{.code = down ? errc::probe_unreachable : errc::probe_refused,
                   .context = down ? "the broker is down" : "the broker refuses it",
                   .kind = down || interactive ? retry::later : retry::after_change};
}

agent::outcome agent::publish(const action& a)
{
    const auto& want = *wanted(a.name);
    const auto before = user(a.name);
    const auto g = generation(a);
    const bool repair = before.current == g.id;
    const auto& directory = want.output.directory;
    const auto key = w_.files.keys.find({a.name, g.id});
    const auto certificate = w_.files.certificates.find({a.name, g.id});
    if (key == w_.files.keys.end() || certificate == w_.files.certificates.end())
        return failure{.code = errc::disk, .context = "there is no such file", .kind = retry::never};
    auto switched = effect("switch", directory + " to " + g.id, [&] {
        laws_.on_publish(a.name, certificate->second);
        w_.files.links[directory] = {
            .generation = g.id, .key = key->second, .certificate = certificate->second};
    });
    if (!switched) return switched;

    auto& record = user(a.name);
    record.output = policy::output_condition::sound;
    if (!repair || (record.failure && policy::is_local(record.failure->code))) record.failure.reset();
    if (!repair) {
        record.previous = before.current;
        record.current = g.id;
        record.deploy_failure.reset();
        auto& now_in_use = generation(a);
        now_in_use.published_at = now();
        now_in_use.deployed_at = want.hooks.empty() ? std::optional(now()) : std::nullopt;
    }
    if (auto saved = save(a.name); !saved) return saved;
    if (before.entry.directory == directory) return {};
    if (!before.entry.directory.empty())
        if (auto gone = effect("unpublish", before.entry.directory,
                               [&] { w_.files.links.erase(before.entry.directory); });
            !gone)
            return gone;
    user(a.name).entry.directory = directory;
    return save(a.name);
}

agent::outcome agent::deploy(const action& a)
{
    point("hooks", a.name.user);
    if (!wanted(a.name)->hooks.empty() && w_.random.chance(w_.sky.hook))
        return failure{.code = errc::hook_failed, .context = "a hook failed"};
    generation(a).deployed_at = now();
    user(a.name).deploy_failure.reset();
    return save(a.name);
}

agent::outcome agent::delete_remote(const action& a, const policy::place& where, const std::string& id)
{
    auto deleted = cloud_.delete_user(place_of(where), where.instance_id, id, [&](const cloud_user& u) {
        laws_.on_delete(u, a, stored_, file_, observed_);
        w_.deleted_by_us[id] = support::word_of(a.kind);
    });
    if (w_.loud) w_.say("  DELETE " + id + (deleted ? " -> ok" : " -> " + deleted.error().context));
    point("DELETE", id);
    if (!deleted) return deleted;
    const auto left = cloud_.read_user(place_of(where), where.instance_id, id);
    if (left) return failure{.code = errc::unavailable, .context = "it is still there"};
    if (left.error().code != errc::not_found) return left.error();
    if (auto seen = observed_.exposures.find(a.name.exposure); seen != observed_.exposures.end())
        std::erase_if(seen->second.users, [&](const policy::remote_user& u) { return u.id == id; });
    return {};
}

agent::outcome agent::release(const action& a)
{
    const auto g = generation(a);
    if (auto gone = delete_all_of(a, g); !gone) return gone;
    generation(a).missing_since = now();
    user(a.name).failure.reset();
    return save(a.name);
}

agent::outcome agent::retire(const action& a)
{
    const auto g = generation(a);
    const bool surplus = a.kind == action_kind::retire_surplus;
    if (surplus) {
        if (auto gone = delete_remote(a, g.where, a.remote_id); !gone) return gone;
    } else if (!g.missing_since) {
        if (auto gone = delete_user_of(a, g); !gone) return gone;
    }
    user(a.name).clear_failure.reset();
    if (surplus) return save(a.name);
    auto& record = user(a.name);
    std::erase_if(record.generations, [&](const auto& other) { return other.id == g.id; });
    if (record.generations.size() == 1) record.retire_now = false;
    if (auto saved = save(a.name); !saved) return saved;
    return effect("erase key", g.id, [&] {
        w_.files.keys.erase({a.name, g.id});
        w_.files.certificates.erase({a.name, g.id});
    });
}

agent::outcome agent::delete_user_of(const action& a, const policy::generation& g)
{
    const auto seen = observed_.exposures.find(a.name.exposure);
    const bool listed = seen != observed_.exposures.end() &&
                        std::ranges::find(seen->second.users, g.remote_id, &policy::remote_user::id) !=
                            seen->second.users.end();
    return listed ? delete_remote(a, g.where, g.remote_id) : delete_all_of(a, g);
}

std::vector<policy::remote_user> agent::users_with_key(const user_name& name,
                                                       const policy::generation& g) const
{
    const policy::marker mark{.owner = stored_.owner, .name = name, .key = policy::marker_key(g.fingerprint)};
    std::vector<policy::remote_user> found;
    if (const auto seen = observed_.exposures.find(name.exposure); seen != observed_.exposures.end())
        std::ranges::copy_if(seen->second.users, std::back_inserter(found),
                             [&](const policy::remote_user& u) { return u.mark == mark; });
    return found;
}

policy::result<std::vector<policy::remote_user>> agent::shown_beside(const policy::generation& g)
{
    const auto place = place_of(g.where);
    auto listed = cloud_.list_users(place, g.where.instance_id);
    if (!listed && listed.error().code == errc::not_found) {
        const auto instances = cloud_.list_instances(place);
        if (!instances) return instances.error();
        if (std::ranges::find(*instances, g.where.instance_id, &policy::remote_instance::id) ==
            instances->end())
            return std::vector<policy::remote_user>();
    }
    if (!listed) return listed.error();
    if (g.remote_id.empty() && listed->cut_off)
        return failure{.code = errc::bad_answer, .context = "cut off"};
    auto users = std::move(listed->users);
    if (g.remote_id.empty() || std::ranges::find(users, g.remote_id, &policy::remote_user::id) != users.end())
        return users;
    auto detail = cloud_.read_user(place, g.where.instance_id, g.remote_id);
    if (detail) users.push_back(detail->user);
    if (!detail && detail.error().code != errc::not_found) return detail.error();
    return users;
}

agent::outcome agent::delete_all_of(const action& a, const policy::generation& g)
{
    const auto users = shown_beside(g);
    if (!users) return users.error();
    const policy::marker mark{
        .owner = stored_.owner, .name = a.name, .key = policy::marker_key(g.fingerprint)};
    std::set<std::string> ids;
    for (const auto& u : users_with_key(a.name, g))
        ids.insert(u.id);
    for (const auto& u : *users) {
        if (u.id != g.remote_id && u.mark != mark) continue;
        const bool ours = u.mark ? u.mark->owner == mark.owner && u.mark->name == a.name
                                 : policy::is_cut_off(u.description, g.sent.description);
        if (!ours)
            return failure{.code = errc::refused, .context = "not our mark any more", .kind = retry::never};
        ids.insert(u.id);
    }
    for (const auto& id : ids)
        if (auto gone = delete_remote(a, g.where, id); !gone) return gone;
    return {};
}

agent::outcome agent::remove(const action& a)
{
    const auto generations = user(a.name).generations;
    for (const auto& g : generations) {
        if (g.missing_since && users_with_key(a.name, g).empty()) continue;
        if (auto gone = delete_all_of(a, g); !gone) return gone;
        user(a.name).find(g.id)->missing_since = now();
        if (auto saved = save(a.name); !saved) return saved;
    }
    return {};
}

agent::outcome agent::forget(const action& a)
{
    const auto record = user(a.name);
    if (!record.entry.directory.empty() && !record.current.empty())
        if (auto left = effect("unpublish", record.entry.directory,
                               [&] { w_.files.links.erase(record.entry.directory); });
            !left)
            return left;
    auto keys = effect("erase keys", a.name.user, [&] {
        std::erase_if(w_.files.keys, [&](const auto& file) { return file.first.first == a.name; });
        std::erase_if(w_.files.certificates, [&](const auto& file) { return file.first.first == a.name; });
    });
    if (!keys) return keys;
    auto gone = effect("erase record", a.name.user, [&] { w_.files.records.erase(a.name); });
    if (!gone) return gone;
    stored_.users.erase(a.name);
    laws_.rotated(a.name);
    return {};
}

agent::outcome agent::onboard(const action& a)
{
    const auto& e = *exposure(a.name.exposure);
    laws_.on_onboard(exposure_record(e));
    exposure_record(e).onboarding_since = now();
    if (auto saved = save_exposure(e.name); !saved) return saved;
    const auto created = cloud_.create_instance(place_of(e));
    point("POST instance", e.name);
    if (created) return {};
    if (policy::never_sent(created.error())) {
        exposure_record(e).onboarding_since.reset();
        if (auto saved = save_exposure(e.name); !saved) return saved;
    }
    return created.error();
}

agent::outcome agent::remember_instance(const action& a)
{
    auto& record = exposure_record(*exposure(a.name.exposure));
    record.where.instance_id = a.remote_id;
    record.onboarding_since.reset();
    return save_exposure(a.name.exposure);
}

agent::outcome agent::forget_instance(const action& a)
{
    for (auto& [name, record] : stored_.users) {
        bool changed = false;
        for (auto& g : record.generations)
            if (name.exposure == a.name.exposure && g.where.instance_id == a.remote_id && !g.missing_since) {
                g.missing_since = now();
                changed = true;
            }
        if (!changed) continue;
        if (auto saved = save(name); !saved) return saved;
    }
    exposure_record(*exposure(a.name.exposure)).where.instance_id.clear();
    return save_exposure(a.name.exposure);
}

// ---- a person's words: agent/service/operations.cpp

void agent::rotate(const user_name& name, bool retire_now)
{
    file_ = w_.desired;
    if (!wanted(name) || !stored_.users.contains(name)) return;
    auto& record = user(name);
    record.failure.reset();
    record.blocked.reset();
    record.creations.clear();
    record.held.clear();
    record.retire_now = record.retire_now || retire_now;
    if (!is_on_its_way(record)) record.rotate_asked_at = now();
    laws_.rotated(name);
    (void)save(name);
}

void agent::rollback(const user_name& name)
{
    file_ = w_.desired;
    inspect_outputs(name.exposure);
    const auto found = stored_.users.find(name);
    if (found == stored_.users.end() || !wanted(name)) return;
    const auto* before = found->second.find(found->second.previous);
    if (!before || !before->certificate || before->missing_since) return;
    const auto g = *before;
    const auto detail = cloud_.read_user(place_of(g.where), g.where.instance_id, g.remote_id);
    if (!detail) return;
    w_.deleted_by_us.erase(g.remote_id);  // the platform still shows it: that it goes later is found out then
    const auto kept = user(name);
    auto& record = user(name);
    record.held = g.id;
    record.deploy_reason = "rollback";
    record.rotate_asked_at.reset();
    record.retire_now = false;
    const auto published = perform({.kind = action_kind::publish, .name = name, .generation = g.id});
    if (!published && user(name).current != g.id) {
        user(name).held = kept.held;
        user(name).rotate_asked_at = kept.rotate_asked_at;
        user(name).retire_now = kept.retire_now;
    }
}

void agent::forget_backoffs()
{
    for (auto& [name, record] : stored_.users)
        for (auto* memory : {&record.failure, &record.deploy_failure, &record.clear_failure})
            if (*memory) (*memory)->next_attempt.reset();
    for (auto& [name, record] : stored_.exposures)
        if (record.failure) record.failure->next_attempt.reset();
}

}  // namespace model
