#include "policy/need.hpp"

#include "policy/dates.hpp"
#include "policy/rotation.hpp"

namespace policy {

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

std::optional<reason> difference(const facts& f, const generation& g)
{
    const auto& e = *f.exposure;
    if (g.sent.common_name != common_name(e.variant, e.tenant, f.want->name, g.id) ||
        g.where.base_url != e.base_url)
        return reason::name_changed;
    if (g.sent.key != f.want->key) return reason::key_type_changed;
    if (g.sent.consumer_group != f.want->consumer_group) return reason::group_changed;
    if (g.sent.contact != f.want->contact) return reason::contact_changed;
    const auto description = describe(
        f.want->description, {.owner = f.owner, .name = f.have->name, .key = marker_key(g.fingerprint)});
    if (g.sent.description != description) return reason::description_changed;
    return std::nullopt;
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
    if (!c) return answer{reason::absent, "it has no certificate yet"};
    if (f.have->rotate_asked_at) return answer{reason::rotation_asked, "a new certificate was asked for"};
    if (c->missing_since) return answer{reason::lost_remote, "its user is gone from the platform"};
    if (!c->key_on_disk) return answer{reason::key_lost, "its private key is gone from the private store"};
    if (c->certificate && c->certificate->expiry() <= f.now)
        return answer{reason::expired, "its certificate expired at " + format_utc(c->certificate->expiry())};
    if (is_due(f))
        return answer{reason::rotation_due, "its certificate was due at " + format_utc(*due_at(f))};
    if (f.have->held == c->id) return std::nullopt;
    if (const auto changed = difference(f, *c))
        return answer{*changed,
                      "the file and the certificate in use differ: " + std::string(word_of(*changed))};
    return std::nullopt;
}

std::optional<instant> due_at(const facts& f)
{
    if (!f.current || !f.current->certificate || !f.want) return std::nullopt;
    return rotate_at(*f.current->certificate, f.want->rotation.renew_before, f.owner, f.have->name).at;
}

}  // namespace policy
