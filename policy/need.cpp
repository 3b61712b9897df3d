#include "policy/need.hpp"

#include "policy/dates.hpp"
#include "policy/rotation.hpp"

namespace policy {

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

std::optional<std::pair<reason, std::string>> need(const facts& f)
{
    using answer = std::pair<reason, std::string>;
    const auto* c = f.current;
    if (!c) return answer{reason::absent, "it has no certificate yet"};
    if (f.have->rotate_asked_at) return answer{reason::rotation_asked, "a new certificate was asked for"};
    if (c->lost_at) return answer{reason::lost_remote, "its user is gone from the platform"};
    if (!c->key_on_disk) return answer{reason::key_lost, "its private key is gone from the private store"};
    if (c->certificate && c->certificate->expiry() <= f.now)
        return answer{reason::expired, "its certificate expired at " + format_utc(c->certificate->expiry())};
    if (const auto at = due_at(f); at && *at <= f.now)
        return answer{reason::rotation_due, "its certificate was due at " + format_utc(*at)};
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
