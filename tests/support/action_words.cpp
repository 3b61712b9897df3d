#include "tests/support/action_words.hpp"

namespace support {

const char* word_of(policy::action_kind kind) noexcept
{
    using policy::action_kind;
    switch (kind) {
        case action_kind::onboard:
            return "onboard";
        case action_kind::remember_instance:
            return "remember_instance";
        case action_kind::forget_instance:
            return "forget_instance";
        case action_kind::issue:
            return "issue";
        case action_kind::submit:
            return "submit";
        case action_kind::adopt:
            return "adopt";
        case action_kind::discard:
            return "discard";
        case action_kind::abandon:
            return "abandon";
        case action_kind::disown:
            return "disown";
        case action_kind::mark_missing:
            return "lose";
        case action_kind::collect:
            return "collect";
        case action_kind::verify:
            return "verify";
        case action_kind::publish:
            return "publish";
        case action_kind::deploy:
            return "deploy";
        case action_kind::delete_before_replace:
            return "release";
        case action_kind::retire:
            return "retire";
        case action_kind::retire_surplus:
            return "retire_surplus";
        case action_kind::mark_unwanted:
            return "mark_unwanted";
        case action_kind::mark_wanted:
            return "mark_wanted";
        case action_kind::remove:
            return "remove";
        case action_kind::forget:
            return "forget";
    }
    return "";
}

}  // namespace support
