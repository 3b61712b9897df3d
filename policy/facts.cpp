#include "policy/facts.hpp"

#include "policy/dates.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <algorithm>
#include <tuple>

namespace policy {

namespace {

exposure_index index_of(const desired_exposure& exposure, const observed_exposure* seen)
{
    exposure_index r{.wanted = &exposure};
    for (const auto& user : exposure.users)
        r.users.emplace(user.name, &user);
    if (!seen) return r;
    for (const auto& user : seen->users) {
        r.by_id.emplace(user.id, &user);
        if (user.mark) r.by_key.emplace(user.mark->key, &user);
    }
    return r;
}

}  // namespace

user_index::user_index(const desired_state& d, const observed_state& o, const stored_state& s)
    : desired(d), observed(o), stored(s)
{
    for (const auto& exposure : desired.exposures) {
        const auto seen = observed.exposures.find(exposure.name);
        exposures_.emplace(exposure.name,
                           index_of(exposure, seen == observed.exposures.end() ? nullptr : &seen->second));
    }
}

const exposure_index& user_index::of(const std::string& exposure) const
{
    static const exposure_index none;
    const auto found = exposures_.find(exposure);
    return found == exposures_.end() ? none : found->second;
}

const desired_user* user_index::wanted(const user_name& name) const
{
    const auto& users = of(name.exposure).users;
    const auto found = users.find(name.user);
    return found == users.end() ? nullptr : found->second;
}

facts join(const user_index& all, const user_name& name, instant now, plan_options options)
{
    const auto& listing = all.of(name.exposure);
    facts f{.wanted = all.desired,
            .listing = listing,
            .exposure = listing.wanted,
            .want = all.wanted(name),
            .owner = all.stored.owner,
            .instance_id = {},
            .wanted_fingerprint = {},
            .now = now,
            .options = options,
            .leaving = all.stored.leaving ? &*all.stored.leaving : nullptr};
    if (f.want) f.wanted_fingerprint = entry_fingerprint(*f.exposure, *f.want);
    if (const auto have = all.stored.users.find(name); have != all.stored.users.end()) {
        f.have = &have->second;
        f.current = f.have->find(f.have->current);
        f.pending = find_pending(*f.have);
    }
    const auto seen = all.observed.exposures.find(name.exposure);
    if (f.exposure && seen != all.observed.exposures.end() && !seen->second.error) f.seen = &seen->second;
    if (const auto known = all.stored.exposures.find(name.exposure); known != all.stored.exposures.end())
        f.instance_id = known->second.where.instance_id;
    return f;
}

user_name name_of(const facts& f)
{
    return f.have ? f.have->name : user_name{f.exposure->name, f.want->name};
}

std::vector<const remote_user*> users_with_key(const facts& f, const generation& g)
{
    std::vector<const remote_user*> found;
    if (!f.seen || !f.have) return found;
    const auto [first, last] = f.listing.by_key.equal_range(marker_key(g.fingerprint));
    for (auto it = first; it != last; ++it)
        if (it->second->mark->owner == f.owner && it->second->mark->name == f.have->name &&
            std::ranges::find(g.not_ours, it->second->id) == g.not_ours.end())
            found.push_back(it->second);
    std::ranges::sort(found, {}, [](const remote_user* user) {
        return std::tuple(user->status != remote_status::ready, user->creation_date.value_or(instant::max()),
                          user->id);
    });
    return found;
}

const remote_user* listed(const facts& f, const generation& g)
{
    if (!f.seen || g.remote_id.empty()) return nullptr;
    const auto user = f.listing.by_id.find(g.remote_id);
    return user == f.listing.by_id.end() ? nullptr : user->second;
}

bool carries_marker(const remote_user& user, const std::string& owner, const user_name& name,
                    const generation& g)
{
    if (!user.mark && g.imported) return !g.kept && user.id == g.remote_id;
    if (!user.mark) return is_cut_off(user.description, g.sent.description);
    return user.mark->owner == owner && user.mark->name == name &&
           user.mark->key == marker_key(g.fingerprint);
}

bool may_get_certificate(const remote_user& user, const generation& g, instant now)
{
    return user.status != remote_status::failed &&
           now - user.creation_date.value_or(g.created_at) < limits::abandon_after;
}

bool is_ours(const facts& f, const generation& g)
{
    const auto* user = listed(f, g);
    if (user) return carries_marker(*user, f.owner, f.have->name, g);
    const bool elsewhere =
        !f.exposure || g.where.base_url != f.exposure->base_url || g.where.tenant != f.exposure->tenant;
    return elsewhere || g.remote_id.empty() || g.missing_since ||
           (f.seen && f.seen->confirmed_missing.contains(g.remote_id));
}

bool may_show_up(const facts& f, const generation& g)
{
    // An answered POST has no late duplicate, and the user that gave the certificate is already visible.
    if (!g.submitted_at || (g.answered && (g.remote_id.empty() || g.certificate))) return false;
    const auto observed_at = f.seen ? f.seen->observed_at : f.now;
    return observed_at < *g.submitted_at + f.wanted.reconcile.settle;
}

bool is_left_over(const facts& f, const generation& g) noexcept
{
    return &g != f.current && &g != f.pending;
}

finding act(const facts& f, action_kind kind, reason why, std::string sentence, const generation* g)
{
    return {.why = why,
            .sentence = sentence,
            .act = action{.kind = kind,
                          .name = name_of(f),
                          .why = why,
                          .sentence = sentence,
                          .generation = g ? g->id : "",
                          .remote_id = {},
                          .replaces = f.current != nullptr},
            .until = std::nullopt};
}

finding wait(reason why, std::string sentence, std::optional<instant> until)
{
    return {.why = why, .sentence = std::move(sentence), .act = std::nullopt, .until = until};
}

finding block(reason why, std::string sentence)
{
    auto found = wait(why, std::move(sentence), std::nullopt);
    found.blocked = true;
    return found;
}

namespace {

duration length_of(const lead& renew_before, duration lifetime)
{
    if (const auto* share = std::get_if<percent>(&renew_before)) return lifetime * share->value / 100;
    return std::get<duration>(renew_before);
}

duration lifetime_of(const certificate_facts& certificate)
{
    return std::max(certificate.expiry() - certificate.not_before, duration(0));
}

// Used instead of a renew_before that is not smaller than the lifetime.
duration cut_lead(duration lifetime)
{
    return lifetime / 3;
}

duration spread_of(duration lifetime, std::string_view seed)
{
    const auto widest = lifetime.count() * limits::spread_percent / 100;
    // a fraction of the widest spread, so that a change of expiry scales the spread
    constexpr std::uint64_t shares = 1'000'003;
    return duration(widest * static_cast<std::int64_t>(stable_hash(seed) % shares) /
                    static_cast<std::int64_t>(shares));
}

}  // namespace

rotation_time rotate_at(const certificate_facts& certificate, const lead& renew_before,
                        const std::string& owner, const user_name& name)
{
    const auto expiry = certificate.expiry();
    const auto lifetime = lifetime_of(certificate);
    rotation_time due;
    auto lead_time = length_of(renew_before, lifetime);
    if (lead_time >= lifetime) {
        lead_time = cut_lead(lifetime);
        due.lead_cut = true;
    }
    const auto spread = spread_of(lifetime, owner + '\0' + name.text());
    // A fresh certificate is never due immediately, however long the lead time.
    due.at = std::max(expiry - lead_time - spread, certificate.not_before + lifetime / 100);
    return due;
}

std::optional<std::string> lead_warning(const certificate_facts& certificate, const lead& renew_before)
{
    const auto lifetime = lifetime_of(certificate);
    const auto lead_time = length_of(renew_before, lifetime);
    if (lead_time < lifetime || lifetime == duration(0)) return std::nullopt;
    return "rotation.renew_before (" + format_duration(lead_time) +
           ") is not shorter than the lifetime of its certificate (" + format_duration(lifetime) +
           "); rotating " + format_duration(cut_lead(lifetime)) +
           " before expiry instead. Set a shorter renew_before";
}

std::optional<std::string> lead_warning(const facts& f)
{
    if (!f.current || !f.current->certificate || !f.want) return std::nullopt;
    return lead_warning(*f.current->certificate, f.want->rotation.renew_before);
}

generation describe_generation(const std::string& fingerprint, const desired_exposure& exposure,
                               const desired_user& user, const std::string& instance,
                               const std::string& owner, instant now)
{
    const marker mark{.owner = owner, .name = {exposure.name, user.name}, .key = marker_key(fingerprint)};
    const auto id = generation_id(fingerprint);
    return {.id = id,
            .fingerprint = fingerprint,
            .where = {exposure.base_url, exposure.variant, exposure.tenant, instance},
            .sent = {.common_name = common_name(exposure.variant, exposure.tenant, user.name, id),
                     .description = describe(user.description, mark),
                     .contact = user.contact,
                     .consumer_group = user.consumer_group,
                     .key = user.key,
                     .encoding = exposure.encoding},
            .created_at = now};
}

namespace {

std::pair<reason, std::string> changed(reason why, const std::string& key, const std::string& from,
                                       const std::string& to)
{
    const auto shown = [](const std::string& text) { return text.empty() ? std::string("(none)") : text; };
    return {why, key + " changed: " + shown(from) + " → " + shown(to)};
}

// The configured text, without the marker.
std::string text_of(const std::string& description)
{
    const auto end = description.rfind(" [exposure-agent ");
    return end == std::string::npos ? "" : description.substr(0, end);
}

}  // namespace

std::optional<std::pair<reason, std::string>> difference(const facts& f, const generation& g)
{
    const auto& e = *f.exposure;
    const auto& want = *f.want;
    if (g.where.base_url != e.base_url)
        return changed(reason::name_changed, "base_url", g.where.base_url, e.base_url);
    if (g.imported) {  // its names are kept until the first rotation
        if (g.where.tenant == e.tenant) return std::nullopt;
        return changed(reason::name_changed, "tenant", g.where.tenant, e.tenant);
    }
    const auto name = common_name(e.variant, e.tenant, want.name, g.id);
    if (g.sent.common_name != name)
        return changed(reason::name_changed, "common name", g.sent.common_name, name);
    if (g.sent.key != want.key)
        return changed(reason::key_type_changed, "key", word_of(g.sent.key), word_of(want.key));
    if (g.sent.consumer_group != want.consumer_group)
        return changed(reason::group_changed, "consumer_group", g.sent.consumer_group, want.consumer_group);
    if (g.sent.contact != want.contact)
        return changed(reason::contact_changed, "contact", g.sent.contact, want.contact);
    const marker mark{.owner = f.owner, .name = f.have->name, .key = marker_key(g.fingerprint)};
    if (g.sent.description == describe(want.description, mark)) return std::nullopt;
    if (const auto before = find_marker(g.sent.description); before && before->owner != f.owner)
        return changed(reason::description_changed, "owner", before->owner, f.owner);
    return changed(reason::description_changed, "description", text_of(g.sent.description), want.description);
}

namespace {

// A certificate that was already due when `rollback` restored it is due again halfway to its expiry:
// otherwise the next pass would undo the rollback.
bool is_due(const facts& f)
{
    const auto at = due_at(f);
    if (!at || *at > f.now) return false;
    const auto& c = *f.current;
    if (f.have->held != c.id || !c.published_at || *at > *c.published_at) return true;
    return f.now - *c.published_at >= c.certificate->expiry() - f.now;
}

}  // namespace

std::optional<std::pair<reason, std::string>> need(const facts& f)
{
    using answer = std::pair<reason, std::string>;
    const auto* c = f.current;
    if (!c) return answer{reason::absent, "no certificate yet"};
    if (f.have->rotate_asked_at) return answer{reason::rotation_asked, "rotation requested"};
    if (c->missing_since) return answer{reason::lost_remote, "its user was deleted on the platform"};
    if (!c->key_on_disk) return answer{reason::key_lost, lost_pair(*c)};
    if (c->certificate && c->certificate->expiry() <= f.now)
        return answer{reason::expired, "its certificate expired at " + format_utc(c->certificate->expiry())};
    if (is_due(f)) return answer{reason::rotation_due, "due for rotation since " + format_utc(*due_at(f))};
    if (f.have->held == c->id) return std::nullopt;
    return difference(f, *c);
}

std::string lost_pair(const generation& g)
{
    return "its private key or certificate (generation " + g.id + ") is missing or damaged";
}

bool is_paused(const facts& f)
{
    return f.want && f.want->rotation.paused;
}

std::string stands(const facts& f)
{
    return is_paused(f) ? "in use; its rotation is paused (rotation.paused)" : "in use, not due for rotation";
}

std::optional<instant> due_at(const facts& f)
{
    if (!f.current || !f.current->certificate || !f.want) return std::nullopt;
    return rotate_at(*f.current->certificate, f.want->rotation.renew_before, f.owner, f.have->name).at;
}

}  // namespace policy
