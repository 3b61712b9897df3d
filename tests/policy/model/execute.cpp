#include "policy/action.hpp"
#include "policy/backoff.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"
#include "tests/policy/model/agent.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

// Mirrors agent/reconcile/execute*.cpp and the rollback in agent/service/operations.cpp.

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

bool is_noted(const policy::generation& g, const std::string& id)
{
    return std::ranges::find(g.not_ours, id) != g.not_ours.end();
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
        case action_kind::disown:
            return disown(a, a.remote_id);
        case action_kind::collect:
            return collect(a);
        case action_kind::verify:
            return verify(a);
        case action_kind::publish:
            return publish(a);
        case action_kind::deploy:
            return deploy(a);
        case action_kind::delete_before_replace:
            return delete_before_replace(a);
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
    policy::user_event what = policy::event::wanted_again{};
    if (a.kind == action_kind::abandon) what = policy::event::abandoned{a.generation, a.sentence};
    if (a.kind == action_kind::mark_missing) what = policy::event::missing{a.generation, a.sentence};
    if (a.kind == action_kind::mark_unwanted) what = policy::event::unwanted{};
    if (a.kind == action_kind::discard) what = policy::event::discarded{a.generation};
    auto saved = record(a.name, {what});
    if (saved && a.why == policy::reason::issue_failed)
        return failure{.code = errc::unavailable, .context = a.sentence};
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

    if (auto saved = record(a.name, {policy::event::created{fresh, a.why}}); !saved) return saved;
    return submit(a.name, fresh.id);
}

agent::outcome agent::submit(const user_name& name, const std::string& id)
{
    const auto& e = *exposure(name.exposure);
    if (!w_.files.keys.contains({name, id}))
        return failure{.code = errc::disk, .context = "no CSR", .kind = retry::never};
    const auto before = *user(name).find(id);
    const policy::event::submitting intent{id, exposure_record(e).where.instance_id};
    if (auto saved = record(name, {intent}); !saved) return saved;
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
    policy::user_event answer = policy::event::unanswered{id};
    if (created && !created->empty()) answer = policy::event::accepted{id, *created};
    if (!created && policy::never_sent(created.error()))
        answer = policy::event::not_sent{id, before.submitted_at, before.answered};
    else if (!created && refused_for_certain(created.error().code))
        answer = policy::event::refused{id, created.error().context};
    if (auto saved = record(name, {answer}); !saved) return saved;
    if (!created) return created.error();
    return {};
}

agent::outcome agent::adopt(const action& a)
{
    return record(a.name, {policy::event::adopted{a.generation, a.remote_id}});
}

// Its certificate has a different key: the agent neither waits for it nor deletes it.
void agent::leave_alone(const std::string& id)
{
    for (auto& u : w_.users)
        if (u.shown.id == id && u.certificate_key != u.key) u.keyless = true;
}

agent::outcome agent::disown(const action& a, const std::string& id)
{
    leave_alone(id);
    if (auto saved = record(a.name, {policy::event::misnamed{a.generation, id}}); !saved) return saved;
    return failure{.code = errc::bad_answer, .context = "user " + id + " is not ours"};
}

bool agent::is_another_user(const user_name& name, const policy::generation& g,
                            const policy::remote_user& user) const
{
    return !policy::carries_marker(user, stored_.owner, name, g) ||
           std::ranges::any_of(users_with_key(name, g),
                               [&](const policy::remote_user& other) { return other.id != user.id; });
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
    if (certificate.key != g.fingerprint && is_another_user(a.name, g, detail->user))
        return disown(a, g.remote_id);
    std::string why;
    if (certificate.key != g.fingerprint) why = "its public key does not match our private key";
    if (certificate.facts.not_after <= now()) why = "it has already expired";
    if (!why.empty()) {
        if (auto saved = record(a.name, {policy::event::quarantined{g.id, why}}); !saved) return saved;
        return failure{.code = errc::unusable_certificate, .context = why, .kind = retry::never};
    }
    auto kept = effect("write certificate", g.id, [&] {
        w_.files.certificates[{a.name, g.id}] = certificate;
    });
    if (!kept) return kept;
    return record(a.name, {policy::event::issued{g.id, certificate.facts}});
}

agent::outcome agent::verify(const action& a)
{
    point("probe", a.name.user);
    const auto* current = user(a.name).find(user(a.name).current);
    const bool in_use_expired = current && current->certificate && current->certificate->expiry() <= now();
    const bool down = w_.random.chance(w_.sky.broker_down);
    const bool refused = !down && w_.random.chance(w_.sky.broker_refuses);
    if ((!down && !refused) || (down && in_use_expired)) {
        const auto by = down ? policy::verification::local : policy::verification::broker;
        return record(a.name, {policy::event::verified{a.generation, by}});
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

    std::vector<policy::user_event> events;
    if (a.why == policy::reason::rolled_back) events.push_back(policy::event::rolled_back{g.id});
    events.push_back(policy::event::published{.generation = g.id, .hooks = !want.hooks.empty()});
    if (auto saved = record(a.name, events); !saved) return saved;
    if (before.entry.directory == directory) return {};
    if (!before.entry.directory.empty())
        if (auto gone = effect("unpublish", before.entry.directory,
                               [&] { w_.files.links.erase(before.entry.directory); });
            !gone)
            return gone;
    return record(a.name, {policy::event::moved{directory}});
}

agent::outcome agent::deploy(const action& a)
{
    point("hooks", a.name.user);
    if (!wanted(a.name)->hooks.empty() && w_.random.chance(w_.sky.hook))
        return failure{.code = errc::hook_failed, .context = "a hook failed"};
    return record(a.name, {policy::event::deployed{a.generation}});
}

agent::outcome agent::delete_remote(const action& a, const policy::place& where, const std::string& id)
{
    auto deleted = cloud_.delete_user(place_of(where), where.instance_id, id, [&](const cloud_user& u) {
        laws_.on_delete(u, a, stored_, file_, observed_);
        w_.deleted_by_us[id] = policy::word_of(a.kind);
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

agent::outcome agent::delete_before_replace(const action& a)
{
    const auto g = generation(a);
    if (auto gone = delete_all_of(a, g); !gone) return gone;
    return record(a.name, {policy::event::released{g.id}});
}

agent::outcome agent::retire(const action& a)
{
    const auto g = generation(a);
    const bool surplus = a.kind == action_kind::retire_surplus;
    if (surplus) {
        auto gone = delete_if_ours(a, g, a.remote_id);
        if (!gone || is_noted(generation(a), a.remote_id)) return gone;
    } else if (!g.missing_since) {
        if (auto gone = delete_user_of(a, g); !gone) return gone;
    }
    if (surplus) return record(a.name, {policy::event::surplus_deleted{g.id, a.remote_id}});
    if (auto saved = record(a.name, {policy::event::retired{g.id}}); !saved) return saved;
    return effect("erase key", g.id, [&] {
        w_.files.keys.erase({a.name, g.id});
        w_.files.certificates.erase({a.name, g.id});
    });
}

agent::outcome agent::delete_user_of(const action& a, const policy::generation& g)
{
    const auto seen = observed_.exposures.find(a.name.exposure);
    const bool listed = seen != observed_.exposures.end() && seen->second.listed &&
                        std::ranges::find(seen->second.users, g.remote_id, &policy::remote_user::id) !=
                            seen->second.users.end();
    const bool alone = std::ranges::all_of(users_with_key(a.name, g),
                                           [&](const policy::remote_user& u) { return u.id == g.remote_id; });
    if (!listed || !alone) return delete_all_of(a, g);
    auto gone = delete_if_ours(a, g, g.remote_id);
    if (gone && is_noted(generation(a), g.remote_id)) return delete_all_of(a, generation(a));
    return gone;
}

std::vector<policy::remote_user> agent::users_with_key(const user_name& name,
                                                       const policy::generation& g) const
{
    const policy::marker mark{.owner = stored_.owner, .name = name, .key = policy::marker_key(g.fingerprint)};
    std::vector<policy::remote_user> found;
    if (const auto seen = observed_.exposures.find(name.exposure); seen != observed_.exposures.end())
        std::ranges::copy_if(
            seen->second.users, std::back_inserter(found),
            [&](const policy::remote_user& u) { return u.mark == mark && !is_noted(g, u.id); });
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
    std::set<std::string> ids;
    for (const auto& u : users_with_key(a.name, g))
        ids.insert(u.id);
    for (const auto& u : *users) {
        const bool known = u.id == g.remote_id;
        const bool ours = policy::carries_marker(u, stored_.owner, a.name, g) && (known || u.mark);
        if (known && !ours)
            return failure{.code = errc::refused, .context = "not our mark any more", .kind = retry::never};
        if (ours && !is_noted(g, u.id)) ids.insert(u.id);
    }
    for (const auto& id : ids)
        if (auto gone = delete_if_ours(a, g, id); !gone) return gone;
    return {};
}

agent::outcome agent::delete_if_ours(const action& a, const policy::generation& g, const std::string& id)
{
    if (id == g.remote_id && g.certificate) return delete_remote(a, g.where, id);
    const auto detail = cloud_.read_user(place_of(g.where), g.where.instance_id, id);
    if (!detail && detail.error().code == errc::not_found) return {};
    if (!detail) return detail.error();
    if (!detail->certificate) {
        if (id == g.remote_id || !policy::may_get_certificate(detail->user, g, now()))
            return delete_remote(a, g.where, id);
        return failure{.code = errc::unavailable, .context = "no certificate yet that shows whose it is"};
    }
    if (detail->certificate->key == g.fingerprint) return delete_remote(a, g.where, id);
    leave_alone(id);
    return record(a.name, {policy::event::not_ours{g.id, id}});
}

agent::outcome agent::remove(const action& a)
{
    const auto generations = user(a.name).generations;
    for (const auto& g : generations) {
        if (g.missing_since && users_with_key(a.name, g).empty()) continue;
        if (auto gone = delete_all_of(a, g); !gone) return gone;
        if (auto saved = record(a.name, {policy::event::removed{g.id}}); !saved) return saved;
    }
    return {};
}

agent::outcome agent::forget(const action& a)
{
    const auto kept = user(a.name);
    if (!kept.entry.directory.empty() && !kept.current.empty())
        if (auto left = effect("unpublish", kept.entry.directory,
                               [&] { w_.files.links.erase(kept.entry.directory); });
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
    if (auto saved = record_exposure(e, policy::event::onboarding{}); !saved) return saved;
    const auto created = cloud_.create_instance(place_of(e));
    point("POST instance", e.name);
    if (created) return {};
    if (policy::never_sent(created.error()))
        if (auto saved = record_exposure(e, policy::event::onboarding_not_sent{}); !saved) return saved;
    return created.error();
}

agent::outcome agent::remember_instance(const action& a)
{
    return record_exposure(*exposure(a.name.exposure), policy::event::instance_found{a.remote_id});
}

agent::outcome agent::forget_instance(const action& a)
{
    std::map<user_name, std::vector<policy::user_event>> lost;
    for (const auto& [name, kept] : stored_.users)
        for (const auto& g : kept.generations)
            if (name.exposure == a.name.exposure && g.where.instance_id == a.remote_id && !g.missing_since)
                lost[name].push_back(policy::event::missing{g.id, a.sentence});
    for (const auto& [name, events] : lost)
        if (auto saved = record(name, events); !saved) return saved;
    return record_exposure(*exposure(a.name.exposure), policy::event::instance_forgotten{});
}

// ---- operator commands: agent/service/operations.cpp

void agent::rotate(const user_name& name, bool retire_now)
{
    file_ = w_.desired;
    if (!wanted(name) || !stored_.users.contains(name)) return;
    laws_.rotated(name);
    (void)record(name, {policy::event::rotation_requested{retire_now}});
}

void agent::rollback(const user_name& name)
{
    file_ = w_.desired;
    inspect_outputs(name.exposure);
    const auto found = stored_.users.find(name);
    if (found == stored_.users.end() || !wanted(name)) return;
    const auto back = policy::roll_back(found->second);
    if (!back) return;
    const auto g = *found->second.find(back->generation);
    const auto detail = cloud_.read_user(place_of(g.where), g.where.instance_id, g.remote_id);
    if (!detail) return;
    w_.deleted_by_us.erase(g.remote_id);  // still on the platform: a later deletion is detected later
    (void)perform(*back);
}

void agent::forget_backoffs()
{
    std::vector<user_name> waiting;
    for (const auto& [name, kept] : stored_.users)
        if (policy::is_backing_off(kept)) waiting.push_back(name);
    for (const auto& name : waiting)
        (void)record(name, {policy::event::retry_requested{}});
    for (const auto& e : file_.exposures)
        if (const auto kept = stored_.exposures.find(e.name);
            kept != stored_.exposures.end() && kept->second.failure)
            (void)record_exposure(e, policy::event::retry_exposure{});
}

}  // namespace model
