#include "tests/policy/model/cloud.hpp"

#include <algorithm>

namespace model {
namespace {

using policy::errc;
using policy::failure;
using policy::retry;

failure fail(errc code, const char* context, retry kind = retry::later)
{
    return {.code = code, .context = context, .kind = kind};
}

}  // namespace

std::string place_of(const policy::place& where)
{
    return where.base_url + "|" + where.tenant;
}

std::string place_of(const policy::desired_exposure& e)
{
    return e.base_url + "|" + e.tenant;
}

void world::settle_time()
{
    for (auto& l : late)
        if (l.at <= now) users.push_back(l.user);
    std::erase_if(late, [this](const late_post& l) { return l.at <= now; });
    std::erase_if(users, [this](const cloud_user& u) { return u.gone_at && *u.gone_at <= now; });
    for (auto& u : users)
        if (u.ready_at <= now && u.shown.status != policy::remote_status::ready) {
            u.shown.status = policy::remote_status::ready;
            u.shown.status_text = "READY";
        }
}

// Faults that keep a request from being processed.
std::optional<failure> cloud::before_processing(bool safe)
{
    w_.settle_time();
    const auto& sky = w_.sky;
    if (w_.random.chance(sky.unsent)) return fail(errc::not_connected, "connection refused");
    if (w_.random.chance(sky.unanswered / 2)) return fail(errc::no_answer, "no answer");
    answered();
    if (w_.random.chance(sky.unavailable / 2)) return fail(errc::unavailable, "503");
    if (w_.random.chance(sky.nonsense)) return fail(errc::bad_answer, "HTML");
    if (!safe || w_.random.chance(200)) {
        if (!w_.random.chance(sky.refused)) return std::nullopt;
        switch (w_.random.below(4)) {
            case 0:
                return failure{.code = errc::throttled, .context = "429", .retry_after = 90s};
            case 1:
                return fail(errc::forbidden, "403", retry::after_change);
            case 2:
                return fail(errc::unauthorized, "401");
            default:
                return fail(errc::refused, "400", retry::after_change);
        }
    }
    return std::nullopt;
}

// Faults that keep the response from reaching the agent.
std::optional<failure> cloud::after_processing()
{
    if (w_.random.chance(w_.sky.unanswered / 2)) return fail(errc::no_answer, "no answer");
    if (w_.random.chance(w_.sky.unavailable / 2)) return fail(errc::unavailable, "500");
    return std::nullopt;
}

policy::result<std::vector<policy::remote_instance>> cloud::list_instances(const std::string& place)
{
    if (auto failed = before_processing(true)) return *failed;
    std::vector<policy::remote_instance> found;
    for (const auto& i : w_.instances[place]) {
        const bool ready = i.ready_at <= w_.now;
        found.push_back({.id = i.id,
                         .status = ready ? policy::remote_status::ready : policy::remote_status::in_progress,
                         .status_text = ready ? "READY" : "IN PROGRESS"});
    }
    return found;
}

policy::result<policy::remote_instance> cloud::read_instance(const std::string& place, const std::string& id)
{
    auto found = list_instances(place);
    if (!found) return found.error();
    for (auto& instance : *found)
        if (instance.id == id) return instance;
    return fail(errc::not_found, "404: no such instance", retry::after_change);
}

policy::result<void> cloud::create_instance(const std::string& place)
{
    if (auto failed = before_processing(false)) return *failed;
    auto& there = w_.instances[place];
    if (!there.empty()) return fail(errc::refused, "409", retry::after_change);
    there.push_back({.id = w_.new_id('i'), .ready_at = w_.now + duration(w_.random.below(30))});
    if (auto failed = after_processing()) return *failed;
    return {};
}

policy::result<user_list> cloud::list_users(const std::string& place, const std::string& instance)
{
    if (auto failed = before_processing(true)) return *failed;
    if (std::ranges::find(w_.instances[place], instance, &cloud_instance::id) == w_.instances[place].end())
        return fail(errc::not_found, "404: no such instance", retry::after_change);
    user_list list;
    list.cut_off = w_.random.chance(w_.sky.cut);
    for (auto& u : w_.users) {
        if (u.place != place || u.instance != instance || u.visible_at > w_.now) continue;
        if (list.cut_off && w_.random.chance(500)) {
            if (is_twin(u)) u.keyless = true;  // a duplicate missing from the list cannot be waited for
            continue;
        }
        list.users.push_back(u.shown);
    }
    return list;
}

policy::result<user_detail> cloud::read_user(const std::string& place, const std::string& instance,
                                             const std::string& id)
{
    if (auto failed = before_processing(true)) return *failed;
    const auto found = std::ranges::find_if(w_.users, [&](const cloud_user& u) {
        return u.shown.id == id && u.place == place && u.instance == instance && u.visible_at <= w_.now;
    });
    if (found == w_.users.end()) return fail(errc::not_found, "404", retry::after_change);
    if (w_.random.chance(w_.sky.lies)) {
        found->keyless = true;
        w_.say("  the platform lies: 404 for " + id);
        return fail(errc::not_found, "404", retry::after_change);
    }
    user_detail detail{.user = found->shown, .certificate = std::nullopt};
    if (found->shown.status == policy::remote_status::ready && !found->certificate_key.empty())
        detail.certificate = certificate_file{
            .key = found->certificate_key, .facts = found->certificate, .remote_id = found->shown.id};
    return detail;
}

bool cloud::is_twin(const cloud_user& u) const
{
    const auto made = w_.made.find(u.key);
    return made != w_.made.end() && made->second > 1;
}

cloud_user cloud::make_user(const std::string& place, const std::string& instance, const user_name& name,
                            const policy::submission& sent, const std::string& key)
{
    auto& random = w_.random;
    const auto& sky = w_.sky;
    cloud_user u{
        .place = place, .instance = instance, .key = key, .common_name = sent.common_name, .name = name};
    u.shown.id = w_.new_id('r');
    ++w_.made[key];
    u.shown.name = sent.common_name;
    u.shown.status_text = "IN PROGRESS";
    u.shown.creation_date = w_.now;
    u.shown.description = sent.description;
    if (w_.cut_descriptions_at != 0 && u.shown.description.size() > w_.cut_descriptions_at)
        u.shown.description.resize(w_.cut_descriptions_at);
    u.shown.mark = policy::find_marker(u.shown.description);
    u.keyless = !u.shown.mark;  // marker cut off: unidentifiable once its id is lost
    const auto settle = static_cast<int>(w_.desired.reconcile.settle.count());
    u.visible_at = random.chance(sky.lag) ? w_.now + duration(random.below(settle)) : w_.now;
    u.ready_at = w_.now + duration(random.chance(500) ? 0 : random.below(60));
    if (random.chance(sky.slow)) u.ready_at = w_.now + std::chrono::hours(random.below(40));
    if (random.chance(sky.never)) u.ready_at = instant::max();
    u.certificate_key = key;
    const auto lifetime = std::chrono::days(random.pick(std::vector{3, 30, 90}));
    u.certificate = {
        .serial = std::to_string(w_.serial), .not_before = w_.now, .not_after = w_.now + lifetime};
    if (random.chance(sky.misfit)) {
        if (random.chance(500))
            u.certificate_key = "somebody else's";
        else
            u.certificate.not_after = w_.now - 1h;
    }
    if (random.chance(sky.early)) u.certificate.not_before = w_.now + 2h;
    if (random.chance(sky.empty)) u.certificate_key.clear();
    return u;
}

policy::result<std::string> cloud::create_user(const std::string& place, const std::string& instance,
                                               const user_name& name, const policy::submission& sent,
                                               const std::string& key,
                                               const std::function<void()>& on_the_wire)
{
    if (w_.random.chance(w_.sky.unsent)) return fail(errc::not_connected, "connection refused");
    on_the_wire();
    ++w_.posts;
    if (w_.cursed.contains(name))
        return fail(errc::refused, "400: this user is refused", retry::after_change);
    if (auto failed = before_processing(false))
        return policy::never_sent(*failed) ? fail(errc::no_answer, "no answer") : *failed;
    const auto& there = w_.instances[place];
    if (there.size() != 1 || there.front().id != instance) return fail(errc::not_found, "404");

    if (w_.random.chance(w_.sky.late)) w_.now += duration(w_.random.below(40));  // slow processing
    auto user = make_user(place, instance, name, sent, key);
    const auto settle = static_cast<int>(w_.desired.reconcile.settle.count());
    if (w_.random.chance(w_.sky.tardy)) {
        user.keyless = true;  // nothing waits this long
        const auto delay = w_.desired.reconcile.settle + duration(w_.random.below(3000));
        user.visible_at = w_.now + delay;
        w_.late.push_back({w_.now + delay, user});
        return fail(errc::no_answer, "no answer");
    }
    if (w_.random.chance(w_.sky.late)) {
        user.visible_at = w_.now + duration(w_.random.below(settle));
        w_.late.push_back({user.visible_at, user});
        return fail(errc::no_answer, "no answer");
    }
    w_.users.push_back(user);
    const auto id = user.shown.id;
    if (w_.random.chance(w_.sky.doubled)) {
        auto twin = make_user(place, instance, name, sent, key);
        twin.visible_at = std::min(twin.visible_at, user.visible_at);
        w_.users.push_back(std::move(twin));
    }
    if (auto failed = after_processing()) return *failed;
    if (w_.random.chance(w_.sky.idless)) return std::string();
    if (w_.random.chance(w_.sky.misnamed))
        for (const auto& other : w_.users)
            if (other.shown.id != id && other.place == place && other.instance == instance)
                return other.shown.id;
    return id;
}

policy::result<void> cloud::delete_user(const std::string& place, const std::string& instance,
                                        const std::string& id,
                                        const std::function<void(const cloud_user&)>& at_the_platform)
{
    if (auto failed = before_processing(false)) return *failed;
    const auto found = std::ranges::find_if(w_.users, [&](const cloud_user& u) {
        return u.shown.id == id && u.place == place && u.instance == instance && u.visible_at <= w_.now;
    });
    if (found != w_.users.end()) {
        ++w_.deletions;
        at_the_platform(*found);
        if (w_.random.chance(w_.sky.late))
            found->gone_at = w_.now + duration(w_.random.below(600));
        else
            w_.users.erase(found);
    }
    if (auto failed = after_processing()) return *failed;
    return {};
}

}  // namespace model
