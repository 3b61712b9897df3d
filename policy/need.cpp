#include "policy/need.hpp"

#include "policy/dates.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace policy {

namespace {

duration length_of(const lead& renew_before, duration lifetime)
{
    if (const auto* share = std::get_if<percent>(&renew_before)) return lifetime * share->value / 100;
    return std::get<duration>(renew_before);
}

duration spread_of(duration lifetime, std::string_view seed)
{
    const auto widest = lifetime.count() * limits::spread_percent / 100;
    // a share, so that an expiry that is seen to move moves the spread in proportion
    constexpr std::uint64_t shares = 1'000'003;
    return duration(widest * static_cast<std::int64_t>(stable_hash(seed) % shares) /
                    static_cast<std::int64_t>(shares));
}

}  // namespace

rotation_time rotate_at(const certificate_facts& certificate, const lead& renew_before,
                        const std::string& owner, const user_name& name)
{
    const auto expiry = certificate.expiry();
    const auto lifetime = std::max(expiry - certificate.not_before, duration(0));
    rotation_time due;
    auto lead_time = length_of(renew_before, lifetime);
    if (lead_time >= lifetime) {
        lead_time = lifetime / 3;
        due.lead_cut = true;
    }
    const auto spread = spread_of(lifetime, owner + '\0' + name.text() + '\0' + certificate.serial);
    // A fresh certificate is never due at once, however long the lead.
    due.at = std::max(expiry - lead_time - spread, certificate.not_before + lifetime / 100);
    return due;
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
    if (g.imported) {  // its names stay as they are until the first rotation
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

// A certificate that `rollback` put back when it was due already is due again halfway to its end: else the
// next pass would undo what a person just did.
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
    if (!c->key_on_disk) return answer{reason::key_lost, "its private key is missing or damaged"};
    if (c->certificate && c->certificate->expiry() <= f.now)
        return answer{reason::expired, "its certificate expired at " + format_utc(c->certificate->expiry())};
    if (is_due(f)) return answer{reason::rotation_due, "due for rotation since " + format_utc(*due_at(f))};
    if (f.have->held == c->id) return std::nullopt;
    return difference(f, *c);
}

std::optional<instant> due_at(const facts& f)
{
    if (!f.current || !f.current->certificate || !f.want) return std::nullopt;
    return rotate_at(*f.current->certificate, f.want->rotation.renew_before, f.owner, f.have->name).at;
}

}  // namespace policy
