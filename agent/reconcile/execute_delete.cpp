#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/execute.hpp"
#include "agent/reconcile/observe.hpp"
#include "crypto/certificate.hpp"
#include "policy/facts.hpp"

#include <algorithm>
#include <set>

namespace reconcile {
namespace {

bool is_noted(const policy::generation& g, const std::string& id)
{
    return std::ranges::find(g.not_ours, id) != g.not_ours.end();
}

// True when the user's certificate is for this key. Without a certificate nobody can use the user: true if
// its id is in our records or it will never get one; errc::unavailable if a certificate may still come.
policy::result<bool> has_key(const platform::user_detail& detail, const policy::generation& g,
                             policy::instant now)
{
    if (detail.certificate.empty()) {
        if (detail.user.id == g.remote_id || !policy::may_get_certificate(detail.user, g, now)) return true;
        return policy::failure{.code = policy::errc::unavailable,
                               .context = "user " + detail.user.id +
                                          " has our marker but no certificate yet to show whether it is "
                                          "ours; deletion is retried later"};
    }
    auto chain = crypto::read_chain(detail.certificate);
    if (!chain) return chain.error();
    return crypto::order_chain(std::move(*chain), g.fingerprint).has_value();
}

}  // namespace

// The answer to a DELETE proves nothing (the reference does not show it): only a read that returns 404 does.
io::task<void> executor::delete_remote(platform::exposure_address address, std::string instance,
                                       std::string id)
{
    auto& api = state_.outside().api;
    if (auto deleted = co_await api.delete_user(address, instance, id); !deleted) co_return deleted.error();
    io::crash_point("delete.answered");
    const auto left = co_await api.read_user(address, instance, id);
    if (!left && left.error().code == policy::errc::not_found) {
        if (auto seen = state_.observed().exposures.find(address.name);
            seen != state_.observed().exposures.end())
            std::erase_if(seen->second.users, [&](const policy::remote_user& user) { return user.id == id; });
        co_return policy::result<void>();
    }
    if (!left) co_return left.error();
    co_return policy::failure{.code = policy::errc::unavailable,
                              .context = address.name + ": the platform still shows user " + id +
                                         " after its deletion; deletion is retried later"};
}

// The users with this generation's marker that this pass observed.
std::vector<policy::remote_user> executor::users_with_key(const policy::user_name& name,
                                                          const policy::generation& g) const
{
    const policy::marker mark{
        .owner = state_.stored().owner, .name = name, .key = policy::marker_key(g.fingerprint)};
    std::vector<policy::remote_user> found;
    if (const auto seen = state_.observed().exposures.find(name.exposure);
        seen != state_.observed().exposures.end())
        std::ranges::copy_if(
            seen->second.users, std::back_inserter(found),
            [&](const policy::remote_user& user) { return user.mark == mark && !is_noted(g, user.id); });
    return found;
}

bool executor::is_listed(const std::string& exposure, const std::string& id) const
{
    const auto seen = state_.observed().exposures.find(exposure);
    return seen != state_.observed().exposures.end() && seen->second.listed &&
           std::ranges::find(seen->second.users, id, &policy::remote_user::id) != seen->second.users.end();
}

// Our users of the instance, including the known one even if the list lacks it. Empty when the platform no
// longer has the instance.
io::task<std::vector<policy::remote_user>> executor::shown_beside(platform::exposure_address address,
                                                                  policy::generation g)
{
    auto& api = state_.outside().api;
    std::vector<policy::remote_user> users;
    platform::exposure_api::user_handler keep = [&](policy::remote_user user) {
        const bool ours = user.mark && user.mark->owner == state_.stored().owner;
        if (ours || user.id == g.remote_id) users.push_back(std::move(user));
    };
    auto listed = co_await api.list_users(address, g.where.instance_id, std::move(keep));
    if (!listed && listed.error().code == policy::errc::not_found) {
        const auto instances = co_await api.list_instances(address);
        if (!instances) co_return instances.error();
        if (std::ranges::find(*instances, g.where.instance_id, &policy::remote_instance::id) ==
            instances->end())
            co_return std::vector<policy::remote_user>();
    }
    if (!listed) co_return listed.error();
    if (g.remote_id.empty() && listed->cut_off)
        co_return policy::failure{
            .code = policy::errc::bad_answer,
            .context = address.name +
                       ": the platform's list appears truncated; cannot tell whether it contains " +
                       g.sent.common_name};
    if (g.remote_id.empty() || std::ranges::find(users, g.remote_id, &policy::remote_user::id) != users.end())
        co_return users;
    auto detail = co_await api.read_user(address, g.where.instance_id, g.remote_id);
    if (detail) users.push_back(detail->user);
    if (!detail && detail.error().code != policy::errc::not_found) co_return detail.error();
    co_return users;
}

// Deletes a user that was found by its marker or named in an answer. A marker can be copied, a key cannot: a
// user whose certificate has another key is left alone, and that is recorded.
io::task<void> executor::delete_if_ours(const policy::action& a, policy::generation g, std::string id)
{
    const auto address = address_of(a.name.exposure, g.where);
    const bool confirmed = id == g.remote_id && g.certificate;
    if (confirmed) co_return co_await delete_remote(address, g.where.instance_id, id);
    const auto detail = co_await state_.outside().api.read_user(address, g.where.instance_id, id);
    if (!detail && detail.error().code == policy::errc::not_found) {
        if (!is_listed(a.name.exposure, id)) co_return policy::result<void>();
        co_return policy::failure{.code = policy::errc::unavailable,
                                  .context = a.name.text() + ": the platform lists user " + id +
                                             " but answers 404 when it is read; deletion is retried later"};
    }
    if (!detail) co_return detail.error();
    const auto ours = has_key(*detail, g, now());
    if (!ours) co_return policy::with_context(a.name.text(), ours.error());
    if (*ours) co_return co_await delete_remote(address, g.where.instance_id, id);
    io::log(io::severity::warning, io::events::noted, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": user " + id + " has our marker but a different key; left unchanged");
    policy::user_event foreign = policy::event::not_ours{g.id, id};
    co_return co_await record(a, std::move(foreign));
}

// Deletes every remote user that carries the generation's key, known by id or found by its marker. Never
// deletes an id whose marker has not been seen.
io::task<void> executor::delete_all_of(const policy::action& a, policy::generation g)
{
    const auto address = address_of(a.name.exposure, g.where);
    const auto users = co_await shown_beside(address, g);
    if (!users) co_return users.error();
    const auto& owner = state_.stored().owner;
    std::set<std::string> ids;
    for (const auto& user : users_with_key(a.name, g))
        ids.insert(user.id);
    for (const auto& user : *users) {
        const bool known = user.id == g.remote_id;
        const bool ours = policy::carries_marker(user, owner, a.name, g) && (known || user.mark);
        if (known && !ours)
            co_return policy::failure{
                .code = policy::errc::refused,
                .context = a.name.text() + ": user " + user.id +
                           " no longer has our marker, so it was not deleted; delete it on the platform",
                .kind = policy::retry::never};
        if (ours && !is_noted(g, user.id)) ids.insert(user.id);
    }
    for (const auto& id : ids)
        if (auto gone = co_await delete_if_ours(a, g, id); !gone) co_return gone.error();
    co_return policy::result<void>();
}

// If this pass listed the user and no other with its key, no new list is needed: the plan checked its marker.
io::task<void> executor::delete_user_of(const policy::action& a, policy::generation g)
{
    const bool shown = is_listed(a.name.exposure, g.remote_id);
    const bool alone = std::ranges::all_of(
        users_with_key(a.name, g), [&](const policy::remote_user& user) { return user.id == g.remote_id; });
    if (!shown || !alone) co_return co_await delete_all_of(a, g);
    auto gone = co_await delete_if_ours(a, g, g.remote_id);
    // skipped because it has another key: a duplicate that appears now may have ours
    const auto left = generation(a);
    if (gone && left && is_noted(*left, g.remote_id)) co_return co_await delete_all_of(a, *left);
    co_return gone;
}

// Deletes its duplicates too: nothing looks for those of a generation whose user is gone.
io::task<void> executor::delete_before_replace(const policy::action& a)
{
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto g = *found;
    if (auto gone = co_await delete_all_of(a, g); !gone) co_return gone.error();
    io::log(io::severity::info, io::events::retired, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": " + a.sentence);
    policy::user_event released = policy::event::released{g.id};
    co_return co_await record(a, std::move(released));
}

// First the user, then its record, then its key: the key is kept until the user is known to be gone.
io::task<void> executor::retire(const policy::action& a)
{
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto g = *found;
    const bool surplus = a.kind == policy::action_kind::retire_surplus;
    const auto id = surplus ? a.remote_id : g.remote_id;
    if (surplus) {
        auto gone = co_await delete_if_ours(a, g, id);
        const auto now_known = generation(a);
        if (!gone || !now_known || is_noted(*now_known, id)) co_return gone;
    } else if (!g.missing_since) {
        if (auto gone = co_await delete_user_of(a, g); !gone) co_return gone.error();
    }
    io::log(io::severity::info, io::events::retired, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": user " + (id.empty() ? g.sent.common_name : id) + " retired: " + a.sentence);
    policy::user_event gone = policy::event::retired{g.id};
    if (surplus) gone = policy::event::surplus_deleted{g.id, id};
    if (auto saved = co_await record(a, std::move(gone)); !saved || surplus) co_return saved;
    io::crash_point("retire.recorded");
    co_return policy::result<void>();
}

io::task<void> executor::remove(const policy::action& a)
{
    const auto generations = state_.user(held_, a.name).generations;
    std::optional<policy::failure> refused;
    for (const auto& g : generations) {
        if (g.missing_since && users_with_key(a.name, g).empty()) continue;
        if (!g.kept) {
            auto gone = co_await delete_all_of(a, g);
            if (!gone && gone.error().code != policy::errc::refused) co_return gone.error();
            if (!gone) {  // of this user only: the others are deleted nevertheless
                refused = gone.error();
                continue;
            }
        }
        policy::user_event removed = policy::event::removed{g.id};
        if (auto saved = co_await record(a, std::move(removed)); !saved) co_return saved.error();
    }
    if (refused) co_return *refused;
    io::log(io::severity::info, io::events::removed, {a.name.exposure, a.name.user},
            a.name.text() + ": removed from the platform: " + a.sentence);
    co_return policy::result<void>();
}

io::task<void> executor::forget(const policy::action& a)
{
    const auto user = state_.user(held_, a.name);
    std::vector<std::string> ids{user.current, user.previous};
    for (const auto& g : user.generations)
        ids.push_back(g.id);
    std::erase(ids, "");
    auto& outside = state_.outside();
    auto gone = co_await io::offload(pool(), [&]() -> policy::result<void> {
        if (!user.entry.directory.empty() && !user.current.empty())
            if (auto left = outside.publisher.unpublish(user.entry.directory, ids); !left)
                return left.error();
        return {};
    });
    if (!gone) co_return gone;
    disk::change what;
    what.forgotten.push_back(a.name);
    auto forgotten = co_await outside.store.commit(std::move(what));
    if (forgotten) state_.forget(held_, a.name);
    co_return forgotten;
}

}  // namespace reconcile
