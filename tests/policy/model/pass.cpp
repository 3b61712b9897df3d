#include "policy/backoff.hpp"
#include "policy/fingerprint.hpp"
#include "tests/policy/model/agent.hpp"

#include <algorithm>

// Mirrors agent/reconcile/{pass,observe,world}.cpp.

namespace model {
namespace {

constexpr int rounds_without_look = 32;
constexpr auto of_look = "look";

bool is_refusal(const policy::failure& failed)
{
    using policy::errc;
    return failed.code == errc::not_found || failed.code == errc::refused || failed.code == errc::bad_answer;
}

std::string describe(const policy::action& a)
{
    return std::string(policy::word_of(a.kind)) + " " + a.name.text() + " " + a.generation + " " +
           a.remote_id + ": " + a.sentence;
}

}  // namespace

void agent::start()
{
    stored_ = {};
    observed_ = {};
    cloud_.clock_ahead.reset();
    file_ = w_.desired;
    stored_.owner = "web-01";
    stored_.cloned = w_.files.cloned;
    stored_.users = w_.files.records;
    stored_.exposures = w_.files.exposures;
    for (auto& [name, record] : stored_.users)
        for (auto& g : record.generations)
            g.key_on_disk = w_.files.keys.contains({name, g.id});
    exempt_slow_creations();
    w_.say("the agent starts");
}

// Killed while the platform was processing a POST: only the intent records when it was sent, and the agent
// does not wait for a user that appears more than the settle time after that.
void agent::exempt_slow_creations()
{
    const auto judge = [&](cloud_user& u) {
        if (u.visible_at <= w_.now) return;
        const auto record = stored_.users.find(u.name);
        const auto* g =
            record == stored_.users.end() ? nullptr : record->second.find(policy::generation_id(u.key));
        u.keyless |= !g || !g->submitted_at ||
                     u.visible_at + w_.clock_ahead >= *g->submitted_at + w_.desired.reconcile.settle;
    };
    for (auto& u : w_.users)
        judge(u);
    for (auto& l : w_.late)
        judge(l.user);
}

instant agent::pass(policy::plan_options options)
{
    file_ = w_.desired;
    std::set<std::string> names;
    for (const auto& e : file_.exposures)
        names.insert(e.name);
    for (const auto& [name, record] : stored_.users)
        names.insert(name.exposure);
    waits_ = false;
    auto wake = now() + file_.reconcile.interval;
    for (const auto& name : names) {
        pass_of(name, options);
        waits_ |= last_.waits_for_platform;
        wake = std::min(wake, last_.wake_at);
    }
    return wake;
}

void agent::pass_of(const std::string& name, policy::plan_options options)
{
    listed_at_.reset();
    inspect_outputs(name);
    follow_entries(name);
    if (const auto* e = exposure(name)) look(*e);
    for (int round = 0;; ++round) {
        last_ = policy::plan(file_, observed_, stored_, now(), options);
        laws_.on_plan(last_, stored_, now(), file_);
        std::vector<policy::action> mine;
        for (const auto& a : last_.actions)
            if (a.name.exposure == name) mine.push_back(a);
        if (mine.empty()) break;
        if (round == rounds_without_look)
            laws_.broken("livelock: the plan never ends: " + describe(mine.front()));
        perform_in_order(mine);
        if (std::ranges::any_of(mine, [](const auto& a) { return a.kind == policy::action_kind::onboard; }))
            break;
    }
    keep_conclusions(last_, name);
    if (listed_at_) (void)record_exposure(*exposure(name), policy::event::users_listed{*listed_at_});
}

// Observes by id alone. nullopt if something is missing or refused; the caller then reads the list.
std::optional<policy::observed_exposure> agent::observe_by_id(const std::string& place,
                                                              const policy::inquiry& asked,
                                                              std::set<std::string>& missing)
{
    policy::observed_exposure seen{.observed_at = now(), .listed = false};
    auto instance = cloud_.read_instance(place, asked.instance);
    if (!instance) {
        if (is_refusal(instance.error())) return std::nullopt;
        return policy::observed_exposure{
            .observed_at = seen.observed_at, .error = instance.error(), .listed = false};
    }
    seen.instances = {*instance};
    if (instance->status != policy::remote_status::ready) return seen;
    std::optional<policy::failure> failed;
    for (const auto& id : asked.ids) {
        auto detail = cloud_.read_user(place, asked.instance, id);
        if (detail)
            seen.users.push_back(detail->user);
        else if (detail.error().code == policy::errc::not_found)
            missing.insert(id);
        else
            failed = detail.error();
    }
    const bool others_answer = !seen.users.empty() && failed && failed->code == policy::errc::unavailable;
    if (!missing.empty() || others_answer || (failed && is_refusal(*failed))) return std::nullopt;
    if (failed)
        return policy::observed_exposure{.observed_at = seen.observed_at, .error = failed, .listed = false};
    return seen;
}

policy::observed_exposure agent::observe(const std::string& place, const policy::inquiry& asked)
{
    std::set<std::string> missing;
    if (!asked.list)
        if (auto by_id = observe_by_id(place, asked, missing)) return *by_id;
    policy::observed_exposure seen{.observed_at = now()};
    auto instances = cloud_.list_instances(place);
    if (!instances) return {.observed_at = seen.observed_at, .error = instances.error()};
    seen.instances = *instances;
    if (seen.instances.size() != 1 || seen.instances.front().status != policy::remote_status::ready)
        return seen;
    const auto instance = seen.instances.front().id;
    auto users = cloud_.list_users(place, instance);
    if (!users) return {.observed_at = seen.observed_at, .error = users.error()};
    seen.users = std::move(users->users);
    seen.cut_off = users->cut_off;
    for (const auto& id : asked.ids) {
        if (std::ranges::find(seen.users, id, &policy::remote_user::id) != seen.users.end()) {
            if (missing.contains(id)) seen.inconsistent.insert(id);
            continue;
        }
        if (missing.contains(id)) {
            seen.confirmed_missing.insert(id);
            continue;
        }
        auto detail = cloud_.read_user(place, instance, id);
        if (detail)
            seen.users.push_back(detail->user);
        else if (detail.error().code == policy::errc::not_found)
            seen.confirmed_missing.insert(id);
    }
    return seen;
}

void agent::look(const policy::desired_exposure& e)
{
    const auto asked = policy::inquiry_of(file_, e, stored_, now());
    auto seen = observe(place_of(e), asked);
    const auto at = seen.observed_at;
    if (cloud_.clock_ahead) observed_.clock_ahead[e.base_url] = *cloud_.clock_ahead;
    const auto failed = seen.error;
    const bool has_instance = !seen.instances.empty();
    observed_.exposures[e.name] = std::move(seen);
    point("look", e.name);
    for (const auto& [name, events] : policy::observations(stored_, observed_, e.name))
        (void)record(name, events);
    if (!failed && has_instance && asked.due) listed_at_ = at;
    if (failed) {
        w_.say("  look at " + e.name + " failed: " + failed->context);
        remember_exposure(e.name, *failed, of_look);
    } else if (const auto kept = stored_.exposures.find(e.name);
               kept != stored_.exposures.end() && kept->second.failure &&
               (has_instance || kept->second.failure->wanted == of_look)) {
        (void)record_exposure(e, policy::event::exposure_recovered{});
    }
}

void agent::inspect_outputs(const std::string& name)
{
    for (auto& [who, record] : stored_.users) {
        const auto* want = wanted(who);
        if (who.exposure != name || record.current.empty() || !want) continue;
        const auto link = w_.files.links.find(want->output.directory);
        record.output_detail = "as inspected";
        if (link == w_.files.links.end())
            record.output = policy::output_condition::missing;
        else if (link->second.generation != record.current || link->second.damaged)
            record.output = policy::output_condition::damaged;
        else if (record.entry.directory != want->output.directory)
            record.output = policy::output_condition::changed;
        else
            record.output = policy::output_condition::sound;
    }
}

void agent::follow_entries(const std::string& name)
{
    for (const auto& [who, kept] : std::map(stored_.users)) {
        const auto* want = who.exposure == name ? wanted(who) : nullptr;
        if (!want) continue;
        if (kept.entry.retire_after == want->rotation.retire_after && kept.entry.hooks == want->hooks)
            continue;
        (void)record(who, {policy::event::entry_changed{want->rotation.retire_after, want->hooks}});
    }
}

// Exposure-wide steps first, then the steps of each user in turn.
void agent::perform_in_order(const std::vector<policy::action>& actions)
{
    std::map<std::string, std::vector<policy::action>> by_user;
    for (const auto& a : actions)
        by_user[a.name.user].push_back(a);
    for (const auto& [user_of, steps] : by_user)
        for (const auto& step : steps) {
            if (w_.loud) w_.say(" " + describe(step));
            const auto done = perform(step);
            if (done) continue;
            if (w_.loud) w_.say("  failed: " + done.error().context);
            remember_failure(step, done.error());
            break;
        }
}

void agent::remember_failure(const policy::action& step, const policy::failure& failed)
{
    if (step.name.user.empty())
        return remember_exposure(step.name.exposure, failed,
                                 exposure_record(*exposure(step.name.exposure)).where.base_url);
    const auto* e = exposure(step.name.exposure);
    const auto* want = wanted(step.name);
    (void)record(step.name,
                 {policy::event::failed{.of = policy::attempt_of(step.kind),
                                        .what = failed,
                                        .wanted = e && want ? policy::entry_fingerprint(*e, *want) : ""}});
}

void agent::remember_exposure(const std::string& name, const policy::failure& failed, const std::string& what)
{
    (void)record_exposure(*exposure(name), policy::event::exposure_failed{failed, what});
}

void agent::keep_conclusions(const policy::plan_result& plan, const std::string& name)
{
    for (const auto& view : plan.users) {
        if (view.name.exposure != name || view.why == policy::reason::unreachable) continue;
        if (!view.blocked && !stored_.users.contains(view.name)) continue;
        if (const auto events = policy::conclusions(user(view.name), view); !events.empty()) {
            if (w_.loud && view.blocked) w_.say(" " + view.name.text() + " is blocked: " + view.sentence);
            (void)record(view.name, events);
        }
    }
    for (const auto& view : plan.exposures) {
        if (view.name.exposure != name || view.why == policy::reason::unreachable) continue;
        const auto& e = *exposure(name);
        for (const auto& what : policy::conclusions(exposure_record(e), view)) {
            if (w_.loud && view.blocked) w_.say(" exposure " + name + " is blocked: " + view.sentence);
            (void)record_exposure(e, what);
        }
    }
}

// ---- world.cpp

const policy::desired_exposure* agent::exposure(const std::string& name) const
{
    const auto found = std::ranges::find(file_.exposures, name, &policy::desired_exposure::name);
    return found == file_.exposures.end() ? nullptr : &*found;
}

const policy::desired_user* agent::wanted(const user_name& name) const
{
    const auto* e = exposure(name.exposure);
    if (!e) return nullptr;
    const auto found = std::ranges::find(e->users, name.user, &policy::desired_user::name);
    return found == e->users.end() ? nullptr : &*found;
}

policy::stored_user& agent::user(const user_name& name)
{
    auto& record = stored_.users[name];
    record.name = name;
    if (record.entry == policy::last_entry{})
        if (const auto* want = wanted(name))
            record.entry = {.retire_after = want->rotation.retire_after,
                            .directory = want->output.directory,
                            .hooks = want->hooks};
    return record;
}

policy::stored_exposure& agent::exposure_record(const policy::desired_exposure& e)
{
    auto& record = stored_.exposures[e.name];
    record.name = e.name;
    const bool here = record.where.base_url == e.base_url && record.where.variant == e.variant &&
                      record.where.tenant == e.tenant;
    if (!here)
        record = {.name = e.name,
                  .where = {.base_url = e.base_url, .variant = e.variant, .tenant = e.tenant}};
    return record;
}

agent::outcome agent::record(const user_name& name, const std::vector<policy::user_event>& events)
{
    const auto before = user(name);
    auto after = before;
    for (const auto& what : events)
        after = policy::apply(std::move(after), what, now());
    user(name) = after;
    auto saved = effect("save", name.user, [&] { w_.files.records[name] = after; });
    const auto counts_once_stored = [](const policy::user_event& e) { return policy::must_be_stored(e); };
    if (!saved && std::ranges::any_of(events, counts_once_stored)) user(name) = before;
    return saved;
}

agent::outcome agent::record_exposure(const policy::desired_exposure& e, const policy::exposure_event& what)
{
    const auto before = exposure_record(e);
    const auto after = policy::apply(before, what, now());
    exposure_record(e) = after;
    auto saved = effect("save", e.name, [&] { w_.files.exposures[e.name] = after; });
    if (!saved && policy::must_be_stored(what)) exposure_record(e) = before;
    return saved;
}

void agent::point(const char* what, const std::string& of)
{
    ++w_.steps;
    if (w_.random.chance(w_.sky.meanwhile)) {
        w_.now += duration(w_.random.below(20));
        w_.settle_time();
    }
    laws_.check();
    if (!w_.random.chance(w_.sky.kill)) return;
    w_.say(std::string("  KILLED at ") + what + " " + of);
    throw killed{};
}

agent::outcome agent::effect(const char* what, const std::string& of, const std::function<void()>& change)
{
    if (w_.random.chance(w_.sky.full))
        return policy::failure{.code = policy::errc::disk_full, .context = std::string("disk full: ") + what};
    if (w_.random.chance(w_.sky.kill)) {
        w_.say(std::string("  KILLED before ") + what + " " + of);
        throw killed{};
    }
    change();
    point(what, of);
    if (w_.random.chance(w_.sky.unsynced))
        return policy::failure{.code = policy::errc::disk, .context = std::string("not synced: ") + what};
    return {};
}

}  // namespace model
