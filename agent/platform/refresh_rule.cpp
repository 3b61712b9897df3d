#include "agent/platform/refresh_rule.hpp"

#include "crypto/digest.hpp"

#include <algorithm>
#include <charconv>

namespace platform {
namespace {

using namespace std::chrono_literals;
using policy::duration;

constexpr int automatic_attempts = 3;  // two in a row, and one near the end of the access token
constexpr duration last_hours = 24h;   // of the access token: with an open attempt nothing is tried earlier

duration life_of(const token_pair& tokens)
{
    return tokens.expires_at ? std::max(duration(1), *tokens.expires_at - tokens.obtained_at) : duration(0);
}

duration lead_of(const token_pair& tokens)
{
    const auto life = life_of(tokens);
    return std::min(std::clamp<duration>(life / 10, 60s, 1h), life / 2);
}

}  // namespace

duration heartbeat(duration refresh_every, std::string_view owner)
{
    unsigned share = 0;  // in 1/65535 of a tenth
    const auto digits = crypto::sha256_hex(owner).substr(0, 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), share, 16);
    return refresh_every - refresh_every / 10 * share / 65535;
}

int open_attempts(const token_record& record)
{
    const auto* presented = record.find(fingerprint_of(record.tokens.refresh_token));
    return presented == nullptr || presented->spent ? 0 : presented->attempts;
}

bool refresh_token_spent(const token_record& record)
{
    const auto* presented = record.find(fingerprint_of(record.tokens.refresh_token));
    return presented != nullptr && presented->spent;
}

std::optional<policy::instant> refresh_due(const token_record& record, duration every)
{
    const auto& tokens = record.tokens;
    if (tokens.refresh_token.empty() || refresh_token_spent(record)) return std::nullopt;
    if (record.trouble != login_trouble::none) return std::nullopt;
    const auto attempts = open_attempts(record);
    if (attempts == 0) {
        const auto beat = tokens.obtained_at + every;
        const auto due = tokens.expires_at ? std::min(beat, *tokens.expires_at - lead_of(tokens)) : beat;
        return std::max(due, tokens.obtained_at + refresh_pause);
    }
    if (attempts >= automatic_attempts || !tokens.expires_at) return std::nullopt;
    const auto last_day = *tokens.expires_at - last_hours;
    if (attempts == 1) return last_day;  // we were interrupted before the second
    const auto last = record.find(fingerprint_of(tokens.refresh_token))->last;
    return std::max(last_day, last + (*tokens.expires_at - last) / 2);
}

bool may_try_after_refusal(const token_record& record)
{
    return open_attempts(record) < automatic_attempts;
}

}  // namespace platform
