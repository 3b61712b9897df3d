#include "agent/reconcile/observe.hpp"

#include "agent/io/async.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace reconcile {
namespace {

constexpr std::size_t parallel_reads = 8;

struct single_reads {
    std::vector<policy::remote_user> found;
    std::vector<std::string> missing;      // 404
    std::optional<policy::failure> error;  // any other failure, the last one
};

io::awaitable<single_reads> read_each(platform::exposure_api& api, platform::exposure_address address,
                                      std::string instance, std::vector<std::string> ids)
{
    single_reads reads;
    co_await io::for_each_parallel(parallel_reads, ids.size(), [&](std::size_t i) -> io::awaitable<void> {
        auto detail = co_await api.read_user(address, instance, ids[i]);
        if (detail)
            reads.found.push_back(std::move(detail->user));
        else if (detail.error().code == policy::errc::not_found)
            reads.missing.push_back(ids[i]);
        else
            reads.error = detail.error();
    });
    co_return reads;
}

// The platform answers and refuses only this read: the list may show more.
bool is_refusal(const policy::failure& failed)
{
    using policy::errc;
    return failed.code == errc::not_found || failed.code == errc::refused || failed.code == errc::bad_answer;
}

// Observes by id only. nullopt when something is missing or refused: the caller then reads the list.
// `missing` gets the users that were answered with 404.
io::awaitable<std::optional<policy::observed_exposure>> observe_by_id(platform::exposure_api& api,
                                                                      platform::exposure_address address,
                                                                      policy::inquiry asked,
                                                                      policy::instant now,
                                                                      std::vector<std::string>& missing)
{
    policy::observed_exposure seen{.observed_at = now, .listed = false};
    auto instance = co_await api.read_instance(address, asked.instance);
    if (!instance) {
        if (is_refusal(instance.error())) co_return std::nullopt;
        seen.error = instance.error();
        co_return seen;
    }
    seen.instances = {*instance};
    if (instance->status != policy::remote_status::ready) co_return seen;
    auto reads = co_await read_each(api, address, asked.instance, std::move(asked.ids));
    missing = std::move(reads.missing);
    // one user that cannot be read must not hold up the others
    const bool others_answer =
        !reads.found.empty() && reads.error && reads.error->code == policy::errc::unavailable;
    if (!missing.empty() || others_answer || (reads.error && is_refusal(*reads.error)))
        co_return std::nullopt;
    if (reads.error) {
        seen.error = reads.error;
        seen.instances.clear();
        co_return seen;
    }
    seen.users = std::move(reads.found);
    co_return seen;
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

io::awaitable<policy::observed_exposure> observe(platform::exposure_api& api,
                                                 policy::desired_exposure exposure, policy::inquiry asked,
                                                 std::string owner, policy::instant now)
{
    const auto address = address_of(exposure);
    std::vector<std::string> missing;  // by id
    if (!asked.list) {
        auto by_id = co_await observe_by_id(api, address, asked, now, missing);
        if (by_id) co_return std::move(*by_id);
    }

    policy::observed_exposure seen{.observed_at = now};
    auto instances = co_await api.list_instances(address);
    if (!instances) {
        seen.error = instances.error();
        co_return seen;
    }
    seen.instances = std::move(*instances);
    if (seen.instances.size() != 1) co_return seen;
    const auto instance = seen.instances.front();
    if (instance.status != policy::remote_status::ready) co_return seen;

    std::unordered_set<std::string> unlisted(asked.ids.begin(), asked.ids.end());
    platform::exposure_api::user_handler keep = [&](policy::remote_user user) {
        const bool known = unlisted.erase(user.id) > 0;
        if (known || asked.others || (user.mark && user.mark->owner == owner))
            seen.users.push_back(std::move(user));
    };
    const auto listed = co_await api.list_users(address, instance.id, std::move(keep));
    if (!listed) {
        seen.error = listed.error();
        seen.users.clear();
        co_return seen;
    }
    seen.cut_off = listed->cut_off;
    for (const auto& id : missing) {
        const bool lacks = unlisted.contains(id);
        if (lacks && seen.cut_off) continue;
        unlisted.erase(id);
        (lacks ? seen.confirmed_missing : seen.inconsistent).insert(id);
    }

    // the list may be incomplete: read each id that it lacks by itself
    std::vector<std::string> rest(unlisted.begin(), unlisted.end());
    auto reads = co_await read_each(api, address, instance.id, std::move(rest));
    if (seen.cut_off) {  // a truncated list proves nothing: then a 404 counts only when repeated
        auto& gone = reads.missing;
        const auto doubtful = std::partition(gone.begin(), gone.end(), [&](const std::string& id) {
            return std::ranges::find(missing, id) != missing.end();
        });
        std::vector<std::string> once(doubtful, gone.end());
        gone.erase(doubtful, gone.end());
        auto again = co_await read_each(api, address, instance.id, std::move(once));
        std::ranges::move(again.found, std::back_inserter(reads.found));
        std::ranges::move(again.missing, std::back_inserter(reads.missing));
    }
    std::ranges::move(reads.found, std::back_inserter(seen.users));
    seen.confirmed_missing.insert(reads.missing.begin(), reads.missing.end());
    co_return seen;
}

void note_clocks(state& s, const std::string& exposure)
{
    const auto note = [&s](const platform::exposure_address& address) {
        if (const auto ahead = s.outside().api.clock_ahead(address))
            s.observed().clock_ahead[address.base_url] = *ahead;
    };
    if (const auto* wanted = s.exposure(exposure)) note(address_of(*wanted));
    for (const auto& [name, user] : s.stored().users)
        if (name.exposure == exposure)
            for (const auto& g : user.generations)
                note(address_of(exposure, g.where));
}

}  // namespace reconcile
