#include "policy/backoff.hpp"
#include "policy/dates.hpp"
#include "policy/events.hpp"
#include "policy/limits.hpp"
#include "policy/stored.hpp"

#include <algorithm>

namespace policy {

const generation* stored_user::find(const std::string& id) const
{
    const auto found = std::ranges::find(generations, id, &generation::id);
    return found == generations.end() ? nullptr : &*found;
}

generation* stored_user::find(const std::string& id)
{
    const auto found = std::ranges::find(generations, id, &generation::id);
    return found == generations.end() ? nullptr : &*found;
}

bool is_dead(const generation& g) noexcept
{
    return g.abandoned || g.missing_since || !g.quarantine.empty();
}

const generation* find_pending(const stored_user& have)
{
    for (auto it = have.generations.rbegin(); it != have.generations.rend(); ++it)
        if (it->id != have.current && !it->published_at && !is_dead(*it)) return &*it;
    return nullptr;
}

namespace {

std::optional<instant> expiry_in_use(const stored_user& user)
{
    const auto* current = user.find(user.current);
    if (!current || !current->certificate) return std::nullopt;
    return current->certificate->expiry();
}

template <class User>
auto& memory_of(User& user, attempt of)
{
    switch (of) {
        case attempt::hooks:
            return user.deploy_failure;
        case attempt::clearing:
            return user.clear_failure;
        case attempt::step:
            break;
    }
    return user.failure;
}

struct user_change {
    stored_user& user;
    instant now;

    // Calls `change` with the generation, unless the record does not have it.
    template <class F>
    void with(const std::string& id, F change) const
    {
        if (auto* g = user.find(id)) change(*g);
    }
    void erase(const std::string& id) const
    {
        std::erase_if(user.generations, [&](const generation& g) { return g.id == id; });
    }
    void mark_missing(const std::string& id) const
    {
        with(id, [&](generation& g) { g.missing_since = now; });
    }

    // ---- a generation under way

    void operator()(const event::created& e) const
    {
        user.generations.push_back(e.made);
        std::erase_if(user.creations, [&](instant at) { return now - at >= limits::creation_window; });
        user.creations.push_back(now);
        // --retire-now applies to the certificate that was requested, not to the next one that is due
        user.retire_now = user.retire_now && user.rotate_asked_at;
        user.rotate_asked_at.reset();
        user.held.clear();
        user.blocked.reset();
        user.deploy_reason = word_of(e.why);
    }
    void operator()(const event::submitting& e) const
    {
        with(e.generation, [&](generation& g) {
            g.submitted_at = now;
            g.answered = false;
            g.where.instance_id = e.instance_id;
        });
    }
    void operator()(const event::not_sent& e) const
    {
        with(e.generation, [&](generation& g) {
            g.submitted_at = e.submitted_at;
            g.answered = e.answered;
        });
    }
    // The settle time starts at the end of the attempt, because the answer may have taken long.
    void operator()(const event::unanswered& e) const
    {
        with(e.generation, [&](generation& g) {
            g.submitted_at = now;
            g.answered = false;
        });
    }
    void operator()(const event::refused& e) const
    {
        with(e.generation, [&](generation& g) {
            g.submitted_at = now;
            g.answered = true;
        });
    }
    void operator()(const event::accepted& e) const
    {
        // the id already belongs to another generation: find this one's user by its marker instead
        if (std::ranges::any_of(user.generations, [&](const generation& other) {
                return other.id != e.generation && other.remote_id == e.remote_id;
            }))
            return (*this)(event::unanswered{e.generation});
        with(e.generation, [&](generation& g) {
            g.submitted_at = now;
            g.answered = true;
            g.remote_id = e.remote_id;
            g.accepted_at = now;
            user.failure.reset();
        });
    }
    void operator()(const event::adopted& e) const
    {
        with(e.generation, [&](generation& g) {
            g.remote_id = e.remote_id;
            g.accepted_at = now;
            user.failure.reset();
        });
    }
    // A second wrong user ends the generation: either the platform mixes up its answers,
    // or someone copies our marker.
    void operator()(const event::misnamed& e) const
    {
        with(e.generation, [&](generation& g) {
            g.abandoned = !g.not_ours.empty();
            g.not_ours.push_back(e.remote_id);
            g.remote_id.clear();
            g.accepted_at.reset();
            g.answered = false;
            g.submitted_at = now;
        });
    }
    void operator()(const event::not_ours& e) const
    {
        with(e.generation, [&](generation& g) { g.not_ours.push_back(e.remote_id); });
        user.clear_failure.reset();
    }
    void operator()(const event::issued& e) const
    {
        with(e.generation, [&](generation& g) {
            g.certificate = e.certificate;
            g.collected_at = now;
            g.verified = verification::local;
            user.failure.reset();
        });
    }
    void operator()(const event::quarantined& e) const
    {
        with(e.generation, [&](generation& g) { g.quarantine = e.why; });
    }
    void operator()(const event::expiration_seen& e) const
    {
        with(e.generation, [&](generation& g) {
            if (g.certificate) g.certificate->expiration_date = e.expiration_date;
        });
    }
    void operator()(const event::verified& e) const
    {
        with(e.generation, [&](generation& g) {
            g.verified = e.by;
            g.verified_at = now;
            user.failure.reset();
        });
    }
    void operator()(const event::published& e) const
    {
        auto* g = user.find(e.generation);
        if (!g) return;
        const bool repair = user.current == e.generation;
        user.files = e.files;
        user.rendered = e.rendered;
        user.output = output_condition::sound;
        if (!repair || (user.failure && is_local(user.failure->code))) user.failure.reset();
        if (repair) return;
        user.previous = user.current;
        user.current = e.generation;
        user.deploy_failure.reset();
        g->published_at = now;
        g->deployed_at = e.hooks ? std::nullopt : std::optional(now);
    }
    void operator()(const event::moved& e) const { user.entry.directory = e.directory; }
    void operator()(const event::deployed& e) const
    {
        with(e.generation, [&](generation& g) {
            g.deployed_at = now;
            user.deploy_failure.reset();
        });
    }

    // ---- a generation that ends

    void operator()(const event::abandoned& e) const
    {
        with(e.generation, [&](generation& g) { g.abandoned = true; });
    }
    void operator()(const event::discarded& e) const { erase(e.generation); }
    void operator()(const event::missing& e) const { mark_missing(e.generation); }
    void operator()(const event::released& e) const
    {
        mark_missing(e.generation);
        user.failure.reset();
    }
    void operator()(const event::surplus_deleted&) const { user.clear_failure.reset(); }
    void operator()(const event::retired& e) const
    {
        erase(e.generation);
        user.clear_failure.reset();
        if (user.generations.size() == 1) user.retire_now = false;
    }
    void operator()(const event::removed& e) const { mark_missing(e.generation); }

    // ---- the user

    void operator()(const event::unwanted&) const { user.unwanted_since = now; }
    void operator()(const event::wanted_again&) const { user.unwanted_since.reset(); }
    void operator()(const event::entry_changed& e) const
    {
        user.entry.retire_after = e.retire_after;
        user.entry.hooks = e.hooks;
    }
    void operator()(const event::failed& e) const
    {
        auto& memory = memory_of(user, e.of);
        memory = remember(memory, e.what, e.wanted, expiry_in_use(user), now);
        if (e.next_attempt) memory->next_attempt = e.next_attempt;
    }
    void operator()(const event::recovered& e) const
    {
        if (e.step) user.failure.reset();
        if (e.hooks) user.deploy_failure.reset();
        if (e.clearing) user.clear_failure.reset();
    }
    void operator()(const event::blocked& e) const
    {
        user.blocked = verdict{.reason = e.reason, .sentence = e.sentence, .since = now};
    }
    void operator()(const event::unblocked&) const { user.blocked.reset(); }

    // ---- requests by a person: these override schedule, back-off and budget

    void operator()(const event::rotation_requested& e) const
    {
        user.failure.reset();
        user.blocked.reset();
        user.creations.clear();
        user.held.clear();
        user.retire_now = user.retire_now || e.retire_now;
        if (!find_pending(user)) user.rotate_asked_at = now;
    }
    void operator()(const event::rolled_back& e) const
    {
        user.held = e.to;
        user.deploy_reason = "rollback";
        user.rotate_asked_at.reset();
        user.retire_now = false;
    }
    void operator()(const event::hooks_requested&) const
    {
        with(user.current, [](generation& g) { g.deployed_at.reset(); });
    }
    void operator()(const event::retry_requested&) const
    {
        for (auto* memory : {&user.failure, &user.deploy_failure, &user.clear_failure})
            if (*memory) (*memory)->next_attempt.reset();
    }
    void operator()(const event::imported& e) const
    {
        for (auto& g : user.generations)
            if (!g.published_at) g.abandoned = true;
        user.generations.push_back(e.made);
        user.rotate_asked_at.reset();
        user.held.clear();
        user.failure.reset();
        user.blocked.reset();
        user.deploy_reason = "imported";
    }
};

struct exposure_change {
    stored_exposure& exposure;
    instant now;

    void operator()(const event::onboarding&) const { exposure.onboarding_since = now; }
    void operator()(const event::onboarding_not_sent&) const { exposure.onboarding_since.reset(); }
    void operator()(const event::instance_found& e) const
    {
        exposure.where.instance_id = e.id;
        exposure.onboarding_since.reset();
    }
    void operator()(const event::instance_forgotten&) const { exposure.where.instance_id.clear(); }
    void operator()(const event::group_fields_accepted& e) const { exposure.group_fields = e.fields; }
    void operator()(const event::users_listed& e) const { exposure.listed_at = e.at; }
    void operator()(const event::exposure_failed& e) const
    {
        exposure.failure = remember(exposure.failure, e.what, e.of, std::nullopt, now);
    }
    void operator()(const event::retry_exposure&) const
    {
        if (exposure.failure) exposure.failure->next_attempt.reset();
    }
    void operator()(const event::exposure_recovered&) const { exposure.failure.reset(); }
    void operator()(const event::blocked& e) const
    {
        exposure.blocked = verdict{.reason = e.reason, .sentence = e.sentence, .since = now};
    }
    void operator()(const event::unblocked&) const { exposure.blocked.reset(); }
};

// ---- history

struct line {
    std::string event;
    std::string generation;
    std::string detail;
};

struct narrator {
    const stored_user& user;

    using answer = std::optional<line>;

    std::string name_of(const std::string& generation) const
    {
        const auto* g = user.find(generation);
        if (!g) return "";
        return g->remote_id.empty() ? g->sent.common_name : "user " + g->remote_id;
    }

    answer operator()(const event::created& e) const
    {
        return line{"created", e.made.id, e.made.sent.common_name + " (" + std::string(word_of(e.why)) + ")"};
    }
    answer operator()(const event::submitting& e) const
    {
        return line{"submitted", e.generation, name_of(e.generation)};
    }
    answer operator()(const event::not_sent&) const { return std::nullopt; }
    answer operator()(const event::unanswered& e) const { return line{"unanswered", e.generation, ""}; }
    answer operator()(const event::refused& e) const { return line{"refused", e.generation, e.why}; }
    answer operator()(const event::accepted& e) const
    {
        return line{"accepted", e.generation, "user " + e.remote_id};
    }
    answer operator()(const event::adopted& e) const
    {
        return line{"adopted", e.generation, "user " + e.remote_id};
    }
    answer operator()(const event::misnamed& e) const
    {
        return line{"refused", e.generation, "user " + e.remote_id + " is not ours"};
    }
    answer operator()(const event::not_ours& e) const
    {
        return line{"not_ours", e.generation, "user " + e.remote_id + " has our marker but a different key"};
    }
    answer operator()(const event::issued& e) const
    {
        return line{"issued", e.generation,
                    "serial " + e.certificate.serial + ", valid until " + format_utc(e.certificate.expiry())};
    }
    answer operator()(const event::quarantined& e) const { return line{"quarantined", e.generation, e.why}; }
    // Reported only when the effective expiry changes:
    // a date that merely appears, or is later than notAfter, changes nothing.
    answer operator()(const event::expiration_seen& e) const
    {
        const auto* g = user.find(e.generation);
        if (!g || !g->certificate) return std::nullopt;
        auto changed = *g->certificate;
        changed.expiration_date = e.expiration_date;
        if (changed.expiry() == g->certificate->expiry()) return std::nullopt;
        return line{"expiration_changed", e.generation,
                    "the platform now reports expiry at " + format_utc(e.expiration_date)};
    }
    answer operator()(const event::verified& e) const
    {
        return line{"verified", e.generation,
                    e.by == verification::broker ? "accepted by the broker" : "the broker was unreachable"};
    }
    answer operator()(const event::published& e) const
    {
        if (user.current == e.generation) return line{"republished", e.generation, e.why};
        const auto* g = user.find(e.generation);
        return line{"in_use", e.generation,
                    g && g->certificate ? "valid until " + format_utc(g->certificate->expiry()) : e.why};
    }
    answer operator()(const event::moved& e) const { return line{"moved", user.current, e.directory}; }
    answer operator()(const event::deployed& e) const
    {
        if (!e.hooks) return std::nullopt;
        return line{"hooks_passed", e.generation, ""};
    }
    answer operator()(const event::abandoned& e) const { return line{"abandoned", e.generation, e.why}; }
    answer operator()(const event::discarded& e) const { return line{"discarded", e.generation, ""}; }
    answer operator()(const event::missing& e) const { return line{"missing", e.generation, e.why}; }
    answer operator()(const event::released& e) const
    {
        return line{"deleted", e.generation, name_of(e.generation) + ", before its successor is created"};
    }
    answer operator()(const event::surplus_deleted& e) const
    {
        return line{"deleted", e.generation, "user " + e.remote_id + ", a duplicate for the same key"};
    }
    answer operator()(const event::retired& e) const
    {
        return line{"retired", e.generation, name_of(e.generation)};
    }
    answer operator()(const event::removed& e) const
    {
        return line{"removed", e.generation, name_of(e.generation)};
    }
    answer operator()(const event::unwanted&) const
    {
        return line{"unwanted", "", "no longer in the configuration"};
    }
    answer operator()(const event::wanted_again&) const
    {
        return line{"wanted_again", "", "in the configuration again"};
    }
    answer operator()(const event::entry_changed&) const { return std::nullopt; }
    answer operator()(const event::failed& e) const
    {
        const auto& memory = memory_of(user, e.of);
        if (memory && memory->sentence == e.what.context) return std::nullopt;
        return line{e.of == attempt::hooks ? "hooks_failed" : "failed", "", e.what.context};
    }
    answer operator()(const event::recovered&) const { return line{"recovered", "", ""}; }
    answer operator()(const event::blocked& e) const { return line{"blocked", "", e.sentence}; }
    answer operator()(const event::unblocked&) const { return line{"unblocked", "", ""}; }
    answer operator()(const event::rotation_requested& e) const
    {
        return line{"rotation_requested", "", e.retire_now ? "with --retire-now" : ""};
    }
    answer operator()(const event::rolled_back& e) const { return line{"rolled_back", e.to, ""}; }
    answer operator()(const event::hooks_requested&) const
    {
        return line{"hooks_requested", user.current, ""};
    }
    answer operator()(const event::retry_requested&) const { return std::nullopt; }
    answer operator()(const event::imported& e) const
    {
        return line{"imported", e.made.id, "user " + e.made.remote_id};
    }
};

template <class... T, class V>
bool is_one_of(const V& what) noexcept
{
    return (std::holds_alternative<T>(what) || ...);
}

}  // namespace

stored_user apply(stored_user user, const user_event& what, instant now)
{
    std::visit(user_change{user, now}, what);
    return user;
}

stored_exposure apply(stored_exposure exposure, const exposure_event& what, instant now)
{
    std::visit(exposure_change{exposure, now}, what);
    return exposure;
}

bool must_be_stored(const user_event& what) noexcept
{
    return is_one_of<event::created, event::submitting, event::recovered, event::rotation_requested,
                     event::hooks_requested, event::imported>(what);
}

bool must_be_stored(const exposure_event& what) noexcept
{
    return is_one_of<event::onboarding, event::exposure_recovered>(what);
}

std::optional<history_event> describe(const stored_user& before, const user_event& what, instant now,
                                      origin from)
{
    auto told = std::visit(narrator{before}, what);
    if (!told) return std::nullopt;
    return history_event{.at = now,
                         .name = before.name,
                         .generation = std::move(told->generation),
                         .event = std::move(told->event),
                         .detail = std::move(told->detail),
                         .person = from.actor == actor::person,
                         .by = std::move(from.by)};
}

}  // namespace policy
