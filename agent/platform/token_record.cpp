#include "agent/platform/token_record.hpp"

#include "crypto/digest.hpp"

#include <algorithm>

namespace platform {
namespace {

constexpr std::size_t remembered = 32;  // presented secrets

}  // namespace

const presented_secret* token_record::find(std::string_view fingerprint) const
{
    const auto found = std::ranges::find(presented, fingerprint, &presented_secret::fingerprint);
    return found == presented.end() ? nullptr : &*found;
}

presented_secret& token_record::at(const std::string& fingerprint)
{
    const auto found = std::ranges::find(presented, fingerprint, &presented_secret::fingerprint);
    if (found != presented.end()) return *found;
    if (presented.size() >= remembered) presented.erase(presented.begin());
    presented_secret fresh;
    fresh.fingerprint = fingerprint;
    return presented.emplace_back(std::move(fresh));
}

void token_record::forget(std::string_view fingerprint)
{
    std::erase_if(presented, [&](const presented_secret& p) { return p.fingerprint == fingerprint; });
}

std::string fingerprint_of(const crypto::secret& secret)
{
    return crypto::sha256_hex(secret.view()).substr(0, 32);
}

}  // namespace platform
