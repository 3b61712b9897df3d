#include "agent/reconcile/look.hpp"

#include "agent/io/async.hpp"

#include <algorithm>

namespace reconcile {
namespace {

constexpr std::size_t parallel_reads = 8;

std::vector<std::string> unlisted(std::vector<std::string> ids, const std::vector<policy::remote_user>& users)
{
    std::erase_if(ids, [&](const std::string& id) {
        return std::ranges::find(users, id, &policy::remote_user::id) != users.end();
    });
    return ids;
}

// The list is not the last word: each id that it lacks is asked for by itself.
io::awaitable<void> confirm(platform::exposure_api& api, platform::exposure_address address,
                            std::string instance, std::vector<std::string> ids,
                            policy::observed_exposure& seen)
{
    co_await io::for_each_parallel(parallel_reads, ids.size(), [&](std::size_t i) -> io::awaitable<void> {
        auto detail = co_await api.read_user(address, instance, ids[i]);
        if (detail)
            seen.users.push_back(detail->user);
        else if (detail.error().code == policy::errc::not_found)
            seen.confirmed_missing.insert(ids[i]);
    });
}

}  // namespace

platform::exposure_address address_of(const policy::desired_exposure& e)
{
    return {.name = e.name, .variant = e.variant, .base_url = e.base_url, .tenant = e.tenant};
}

platform::exposure_address address_of(const std::string& exposure, const policy::place& where)
{
    return {.name = exposure, .variant = where.variant, .base_url = where.base_url, .tenant = where.tenant};
}

std::vector<std::string> known_ids(const policy::stored_state& stored,
                                   const policy::desired_exposure& exposure)
{
    std::vector<std::string> ids;
    for (const auto& [name, user] : stored.users) {
        if (name.exposure != exposure.name) continue;
        for (const auto& g : user.generations)
            if (!g.remote_id.empty() && !g.missing_since && g.where.base_url == exposure.base_url &&
                g.where.tenant == exposure.tenant)
                ids.push_back(g.remote_id);
    }
    return ids;
}

io::awaitable<policy::observed_exposure> look(platform::exposure_api& api, policy::desired_exposure exposure,
                                              std::vector<std::string> known, policy::instant now)
{
    policy::observed_exposure seen{.looked_at = now};
    const auto address = address_of(exposure);
    auto instances = co_await api.list_instances(address);
    if (!instances) {
        seen.error = instances.error();
        co_return seen;
    }
    seen.instances = std::move(*instances);
    if (seen.instances.size() != 1) co_return seen;

    const auto& instance = seen.instances.front();
    if (instance.status != policy::remote_status::ready) co_return seen;
    platform::exposure_api::user_handler keep = [&](policy::remote_user user) {
        seen.users.push_back(std::move(user));
    };
    const auto listed = co_await api.list_users(address, instance.id, std::move(keep));
    if (!listed) {
        seen.error = listed.error();
        seen.users.clear();
        co_return seen;
    }
    seen.cut_off = listed->cut_off;
    auto missing = unlisted(std::move(known), seen.users);
    co_await confirm(api, address, instance.id, std::move(missing), seen);
    co_return seen;
}

}  // namespace reconcile
