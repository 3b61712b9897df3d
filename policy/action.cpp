#include "policy/action.hpp"

namespace policy {

bool needs_platform(action_kind kind) noexcept
{
    switch (kind) {
        case action_kind::onboard:
        case action_kind::issue:
        case action_kind::submit:
        case action_kind::collect:
        case action_kind::delete_before_replace:
        case action_kind::retire:
        case action_kind::retire_surplus:
        case action_kind::remove:
            return true;
        default:
            return false;
    }
}

bool deletes(action_kind kind) noexcept
{
    return kind == action_kind::delete_before_replace || kind == action_kind::retire ||
           kind == action_kind::retire_surplus || kind == action_kind::remove;
}

attempt attempt_of(action_kind kind) noexcept
{
    if (kind == action_kind::deploy) return attempt::hooks;
    const bool clears = kind == action_kind::retire || kind == action_kind::retire_surplus;
    return clears ? attempt::clearing : attempt::step;
}

const char* contract_word(const action& a) noexcept
{
    switch (a.kind) {
        case action_kind::onboard:
            return "onboard";
        case action_kind::issue:
        case action_kind::submit:
        case action_kind::delete_before_replace:
            return a.replaces ? "rotate" : "create";
        case action_kind::adopt:
            return "adopt";
        case action_kind::collect:
        case action_kind::verify:
        case action_kind::publish:
            return "publish";
        case action_kind::deploy:
            return "deploy";
        case action_kind::retire:
        case action_kind::retire_surplus:
            return "retire";
        case action_kind::mark_unwanted:
        case action_kind::remove:
        case action_kind::forget:
            return "remove";
        case action_kind::discard:
        case action_kind::abandon:
        case action_kind::mark_missing:
        case action_kind::disown:
            return a.replaces ? "rotate" : "create";
        case action_kind::remember_instance:
        case action_kind::forget_instance:
        case action_kind::mark_wanted:
            return "";
    }
    return "";
}

}  // namespace policy
