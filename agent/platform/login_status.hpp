#pragma once

#include "policy/time.hpp"

#include <optional>
#include <string>

namespace platform {

enum class login_state { ok, required, external };

// "ok", "required", "external": the words of `status` and `token`.
constexpr const char* name_of(login_state state) noexcept
{
    switch (state) {
        case login_state::ok:
            return "ok";
        case login_state::required:
            return "required";
        case login_state::external:
            return "external";
    }
    return "";
}

// How the login stands, without any token.
struct login_status {
    login_state state = login_state::required;
    bool at_risk = false;  // the outcome of a refresh is not known: it may end with the access token
    bool unsaved = false;  // the state directory lacks the tokens
    std::string sentence;  // what is wrong and what to do; empty: all is well
    std::string subject;   // whom the tokens name; empty: unknown
    std::optional<policy::instant> access_token_expires_at;
    std::optional<policy::instant> last_refresh_at;

    bool operator==(const login_status&) const = default;
};

}  // namespace platform
