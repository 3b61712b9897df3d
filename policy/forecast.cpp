#include "policy/forecast.hpp"

#include "policy/dates.hpp"
#include "policy/events.hpp"
#include "policy/facts.hpp"
#include "policy/fingerprint.hpp"
#include "policy/plan.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace policy {
namespace {

constexpr duration assumed_lifetime = std::chrono::days(365);
constexpr int most_passes = 20'000;  // per user: a forecast of years is useless with certificates of minutes
constexpr std::size_t fingerprint_digits = 64;
constexpr int passes_at_one_time = 100;  // many more than a rotation has steps

duration lifetime_of(const certificate_facts& c)
{
    return std::max(c.expiry() - c.not_before, duration(1));
}

// The lifetime of the user's last certificate, or of another user's.
duration expected_lifetime(const stored_state& stored, const user_name& name)
{
    std::optional<duration> found;
    for (const auto& [other, user] : stored.users)
        for (const auto& g : user.generations)
            if (g.certificate && (!found || other == name)) found = lifetime_of(*g.certificate);
    return found.value_or(assumed_lifetime);
}

// The platform as recorded, answering every request at once.
class virtual_platform {
public:
    virtual_platform(const desired_state& desired, const stored_state& stored)
    {
        for (const auto& exposure : desired.exposures)
            add(exposure, stored);
        for (const auto& [name, user] : stored.users)
            for (const auto& g : user.generations)
                if (!g.remote_id.empty() && !g.missing_since) add_user(name, g, stored.owner);
    }

    const observed_state& look(instant now)
    {
        for (auto& [name, exposure] : state_.exposures)
            exposure.observed_at = now;
        return state_;
    }
    void add_instance(const std::string& exposure, const std::string& id)
    {
        state_.exposures[exposure].instances.push_back({.id = id,
                                                        .name = exposure,
                                                        .status = remote_status::ready,
                                                        .status_text = "READY",
                                                        .group = std::nullopt});
    }
    void add_user(const user_name& name, const generation& g, const std::string& owner)
    {
        const auto seen = state_.exposures.find(name.exposure);
        if (seen == state_.exposures.end()) return;  // not in the configuration: not observed
        seen->second.users.push_back(
            {.id = g.remote_id,
             .name = g.sent.common_name,
             .status = remote_status::ready,
             .status_text = "READY",
             .consumer_group = g.sent.consumer_group,
             .contact = g.sent.contact,
             .group = std::nullopt,
             .created_by = {},
             .creation_date = g.created_at,
             .expiration_date = std::nullopt,
             .expiration_unreadable = false,
             .description = g.sent.description,
             .mark =
                 g.imported ? std::nullopt : std::optional(marker{owner, name, marker_key(g.fingerprint)})});
    }
    void delete_user(const user_name& name, const std::string& id)
    {
        if (const auto seen = state_.exposures.find(name.exposure); seen != state_.exposures.end())
            std::erase_if(seen->second.users, [&](const remote_user& user) { return user.id == id; });
    }

private:
    // Assumes that a known instance, or one that the agent may not create, exists.
    void add(const desired_exposure& exposure, const stored_state& stored)
    {
        state_.exposures[exposure.name];
        std::string known;
        if (const auto kept = stored.exposures.find(exposure.name); kept != stored.exposures.end())
            known = kept->second.where.instance_id;
        for (const auto& [name, user] : stored.users)
            for (const auto& g : user.generations)
                if (known.empty() && name.exposure == exposure.name) known = g.where.instance_id;
        if (known.empty() && exposure.create_instance) return;
        add_instance(exposure.name, known.empty() ? "instance" : known);
    }

    observed_state state_;
};

// Plans, performs the plan and continues at the instant when the plan would change.
class forecaster {
public:
    forecaster(desired_state desired, stored_state stored, duration lifetime, instant until)
        : desired_(std::move(desired)),
          stored_(std::move(stored)),
          platform_(desired_, stored_),
          lifetime_(lifetime),
          until_(until)
    {
    }

    std::vector<forecast_entry> run(instant now)
    {
        desired_.reconcile.interval = until_ - now + duration(1);  // only time changes a plan here
        int here = 0;
        for (int passes = 0; now <= until_ && passes < most_passes; ++passes) {
            const auto planned = plan(desired_, platform_.look(now), stored_, now);
            for (const auto& step : planned.actions)
                perform(step, now);
            if (!planned.actions.empty() && ++here < passes_at_one_time) continue;
            here = 0;
            const auto next = std::max(planned.wake_at, now + duration(1));
            note_expired(planned, now, std::min(next, until_));
            now = next;
        }
        return std::move(entries_);
    }

private:
    void note(const action& a, instant now, forecast_action what, std::string sentence)
    {
        entries_.push_back({.at = now,
                            .name = a.name,
                            .action = what,
                            .reason = word_of(a.why),
                            .sentence = std::move(sentence)});
    }

    const desired_exposure* exposure(const std::string& name) const
    {
        const auto found = std::ranges::find(desired_.exposures, name, &desired_exposure::name);
        return found == desired_.exposures.end() ? nullptr : &*found;
    }

    void happened(const user_name& name, const user_event& what, instant now)
    {
        auto& user = stored_.users[name];
        user.name = name;
        user = apply(std::move(user), what, now);
    }
    void happened(const std::string& name, const exposure_event& what, instant now)
    {
        auto& record = stored_.exposures[name];
        if (const auto* e = exposure(name); e && record.name.empty()) {
            record.name = name;
            record.where = {
                .base_url = e->base_url, .variant = e->variant, .tenant = e->tenant, .instance_id = {}};
        }
        record = apply(std::move(record), what, now);
    }

    // The events that follow when platform, broker, disk and hooks all succeed.
    void perform(const action& a, instant now)
    {
        switch (a.kind) {
            case action_kind::onboard:
                happened(a.name.exposure, event::onboarding{}, now);
                return platform_.add_instance(a.name.exposure, "instance");
            case action_kind::remember_instance:
                return happened(a.name.exposure, event::instance_found{a.remote_id}, now);
            case action_kind::forget_instance:
                return happened(a.name.exposure, event::instance_forgotten{}, now);
            case action_kind::issue:
                return issue(a, now);
            case action_kind::submit:
                return submit(a.name, a.generation, now);
            case action_kind::adopt:
                return happened(a.name, event::adopted{a.generation, a.remote_id}, now);
            case action_kind::discard:
                return happened(a.name, event::discarded{a.generation}, now);
            case action_kind::abandon:
                return happened(a.name, event::abandoned{a.generation, a.sentence}, now);
            case action_kind::disown:
                return happened(a.name, event::misnamed{a.generation, a.remote_id}, now);
            case action_kind::mark_missing:
                return happened(a.name, event::missing{a.generation, a.sentence}, now);
            case action_kind::collect:
                return collect(a, now);
            case action_kind::verify:
                return happened(a.name, event::verified{a.generation, verification::broker}, now);
            case action_kind::publish:
                return publish(a, now);
            case action_kind::deploy:
                return happened(a.name, event::deployed{a.generation, true}, now);
            case action_kind::delete_before_replace:
                platform_.delete_user(a.name, remote_id_of(a));
                return happened(a.name, event::released{a.generation}, now);
            case action_kind::retire:
                return retire(a, now);
            case action_kind::retire_surplus:
                platform_.delete_user(a.name, a.remote_id);
                note(a, now, forecast_action::retire, a.sentence);
                return happened(a.name, event::surplus_deleted{a.generation, a.remote_id}, now);
            case action_kind::mark_unwanted:
                return happened(a.name, event::unwanted{}, now);
            case action_kind::mark_wanted:
                return happened(a.name, event::wanted_again{}, now);
            case action_kind::remove:
                return remove(a, now);
            case action_kind::forget:
                stored_.users.erase(a.name);
                return;
        }
    }

    std::string remote_id_of(const action& a)
    {
        const auto* g = stored_.users[a.name].find(a.generation);
        return g ? g->remote_id : "";
    }

    // The same key in every forecast, so that calendars recognize known entries.
    void issue(const action& a, instant now)
    {
        const auto* in = exposure(a.name.exposure);
        const auto want = std::ranges::find(in->users, a.name.user, &desired_user::name);
        const auto& user = stored_.users[a.name];
        const auto* current = user.find(user.current);
        std::string fingerprint;
        while (fingerprint.size() < fingerprint_digits)
            fingerprint += stable_fingerprint(a.name.text() + (current ? current->fingerprint : "") +
                                              std::to_string(++keys_));
        const auto fresh =
            describe_generation(fingerprint, *in, *want, stored_.exposures[a.name.exposure].where.instance_id,
                                stored_.owner, now);
        const auto what = current ? forecast_action::rotate : forecast_action::create;
        note(a, now, what,
             a.why == reason::rotation_due && current->certificate
                 ? "its certificate expires at " + format_utc(current->certificate->expiry())
                 : a.sentence);
        happened(a.name, event::created{fresh, a.why}, now);
        submit(a.name, fresh.id, now);
    }
    void submit(const user_name& name, const std::string& generation, instant now)
    {
        happened(name, event::submitting{generation, stored_.exposures[name.exposure].where.instance_id},
                 now);
        happened(name, event::accepted{generation, "forecast-" + generation}, now);
        if (const auto* g = stored_.users[name].find(generation)) platform_.add_user(name, *g, stored_.owner);
    }
    void collect(const action& a, instant now)
    {
        const auto* g = stored_.users[a.name].find(a.generation);
        const certificate_facts made{.serial = g->fingerprint.substr(0, 16),
                                     .fingerprint = g->fingerprint,
                                     .not_before = now,
                                     .not_after = now + lifetime_,
                                     .expiration_date = std::nullopt};
        happened(a.name, event::issued{a.generation, made}, now);
    }
    void publish(const action& a, instant now)
    {
        const auto& user = stored_.users[a.name];
        const auto* in = exposure(a.name.exposure);
        const auto want = std::ranges::find(in->users, a.name.user, &desired_user::name);
        happened(a.name,
                 event::published{.generation = a.generation,
                                  .files = user.files,
                                  .rendered = user.rendered,
                                  .hooks = !want->hooks.empty(),
                                  .why = a.sentence},
                 now);
    }
    void retire(const action& a, instant now)
    {
        const auto& user = stored_.users[a.name];
        const auto* g = user.find(a.generation);
        const auto* current = user.find(user.current);
        if (g && !g->missing_since && g->submitted_at)
            note(a, now, forecast_action::retire,
                 g->sent.common_name + (current && current->published_at && g->published_at
                                            ? " was replaced at " + format_utc(*current->published_at)
                                            : " is not used"));
        platform_.delete_user(a.name, remote_id_of(a));
        happened(a.name, event::retired{a.generation}, now);
    }
    void remove(const action& a, instant now)
    {
        note(a, now, forecast_action::remove, a.sentence);
        const auto generations = stored_.users[a.name].generations;
        for (const auto& g : generations) {
            platform_.delete_user(a.name, g.remote_id);
            happened(a.name, event::removed{g.id}, now);
        }
    }

    // A certificate in use that expires before it is replaced.
    void note_expired(const plan_result& planned, instant now, instant next)
    {
        for (const auto& view : planned.users) {
            const auto user = stored_.users.find(view.name);
            if (user == stored_.users.end() || user->second.unwanted_since) continue;
            const auto* current = user->second.find(user->second.current);
            if (!current || !current->certificate) continue;
            const auto end = current->certificate->expiry();
            if (end <= now || end > next) continue;
            entries_.push_back({.at = end,
                                .name = view.name,
                                .action = forecast_action::expire,
                                .reason = word_of(view.why),
                                .sentence = view.sentence});
        }
    }

    desired_state desired_;
    stored_state stored_;
    virtual_platform platform_;
    duration lifetime_;
    instant until_;
    int keys_ = 0;
    std::vector<forecast_entry> entries_;
};

desired_state without_users(desired_state desired)
{
    for (auto& exposure : desired.exposures)
        exposure.users.clear();
    return desired;
}

bool by_time(const forecast_entry& a, const forecast_entry& b)
{
    return std::tie(a.at, a.name) < std::tie(b.at, b.name);
}

}  // namespace

// Wanted users do not affect each other, so each is forecast separately: otherwise a year of a thousand users
// would be planned a thousand times as often. The others share max_deletes.
forecast_result forecast(const desired_state& desired, const stored_state& stored, instant from,
                         instant until)
{
    const auto has_users = [](const desired_exposure& e) { return !e.users.empty(); };
    if (stored.leaving && std::ranges::any_of(desired.exposures, has_users))
        return forecast(leaving_state(desired), stored, from, until);
    forecast_result result{.from = from, .until = until, .users = {}, .entries = {}};
    const auto nobody = without_users(desired);
    auto rest = stored;
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users) {
            const user_name name{exposure.name, user.name};
            auto wanted = nobody;
            std::ranges::find(wanted.exposures, exposure.name, &desired_exposure::name)->users = {user};
            stored_state own{
                .owner = stored.owner, .cloned = stored.cloned, .users = {}, .exposures = stored.exposures};
            forecast_user row{.name = name};
            if (auto known = rest.users.extract(name)) {
                const auto* current = known.mapped().find(known.mapped().current);
                row.served = current && current->certificate && current->certificate->expiry() > from;
                own.users.insert(std::move(known));
            }
            result.users.push_back(std::move(row));
            const auto lifetime = expected_lifetime(stored, name);
            std::ranges::move(forecaster(std::move(wanted), std::move(own), lifetime, until).run(from),
                              std::back_inserter(result.entries));
        }
    for (const auto& [name, user] : rest.users)
        result.users.push_back({.name = name, .served = true});
    add(result, forecaster(nobody, std::move(rest), assumed_lifetime, until).run(from));
    return result;
}

void add(forecast_result& to, std::vector<forecast_entry> more)
{
    std::ranges::move(more, std::back_inserter(to.entries));
    std::ranges::stable_sort(to.entries, by_time);
}

void keep_only(forecast_result& all, const std::set<user_name>& only)
{
    std::erase_if(all.users, [&](const forecast_user& u) { return !only.contains(u.name); });
    std::erase_if(all.entries, [&](const forecast_entry& e) {
        return !e.name.exposure.empty() && !only.contains(e.name);
    });
}

}  // namespace policy
