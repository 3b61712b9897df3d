#include "policy/rotation.hpp"

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
    return duration(static_cast<std::int64_t>(stable_hash(seed) % static_cast<std::uint64_t>(widest + 1)));
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

}  // namespace policy
