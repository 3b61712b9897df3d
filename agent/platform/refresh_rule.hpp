#pragma once

#include "agent/platform/token_record.hpp"

#include <optional>
#include <string_view>

// When the tokens are refreshed, as pure functions of the record (failure-modes S2).

namespace platform {

// At least this long passes between a refresh and the next one, whatever is said of the new token.
inline constexpr policy::duration refresh_pause{30};

// identity.refresh_every, less a share (at most a tenth) that is fixed for an owner: a fleet spreads by
// itself.
policy::duration heartbeat(policy::duration refresh_every, std::string_view owner);

// Sendings of the refresh token whose outcome is not known: more than none means that the grant is at risk.
int open_attempts(const token_record&);

// The refresh token's outcome is known: sending it again would be of no use, or worse.
bool refresh_token_spent(const token_record&);

// When to refresh by itself. Fresh: ahead of the access token's end (a tenth of its life, between a minute
// and an hour) or with the heartbeat, whichever is first. With an open attempt: near the end only, once.
// None: not at all.
std::optional<policy::instant> refresh_due(const token_record&, policy::duration heartbeat);

// Whether the refresh token may be sent once more after the access token was refused.
bool may_try_after_refusal(const token_record&);

}  // namespace platform
