#include "policy/reason.hpp"

namespace policy {

const char* word_of(reason r) noexcept
{
    switch (r) {
        case reason::healthy:
            return "healthy";
        case reason::waiting_settle:
            return "waiting_settle";
        case reason::waiting_ready:
            return "waiting_ready";
        case reason::waiting_instance:
            return "waiting_instance";
        case reason::backing_off:
            return "backing_off";
        case reason::absent:
            return "absent";
        case reason::rotation_due:
            return "rotation_due";
        case reason::expired:
            return "expired";
        case reason::rotation_asked:
            return "rotation_asked";
        case reason::key_type_changed:
            return "key_type_changed";
        case reason::group_changed:
            return "group_changed";
        case reason::contact_changed:
            return "contact_changed";
        case reason::description_changed:
            return "description_changed";
        case reason::name_changed:
            return "name_changed";
        case reason::lost_remote:
            return "lost_remote";
        case reason::key_lost:
            return "key_lost";
        case reason::not_submitted:
            return "not_submitted";
        case reason::unanswered:
            return "unanswered";
        case reason::found_by_marker:
            return "found_by_marker";
        case reason::outdated:
            return "outdated";
        case reason::never_ready:
            return "never_ready";
        case reason::ready:
            return "ready";
        case reason::not_proven:
            return "not_proven";
        case reason::not_published:
            return "not_published";
        case reason::hooks_pending:
            return "hooks_pending";
        case reason::output_changed:
            return "output_changed";
        case reason::output_damaged:
            return "output_damaged";
        case reason::output_missing:
            return "output_missing";
        case reason::superseded:
            return "superseded";
        case reason::surplus:
            return "surplus";
        case reason::strategy_replace:
            return "strategy_replace";
        case reason::not_in_file:
            return "not_in_file";
        case reason::named_again:
            return "named_again";
        case reason::quarantined:
            return "quarantined";
        case reason::instance_missing:
            return "instance_missing";
        case reason::instance_vanished:
            return "instance_vanished";
        case reason::instance_several:
            return "instance_several";
        case reason::users_vanished:
            return "users_vanished";
        case reason::unreachable:
            return "unreachable";
        case reason::budget_spent:
            return "budget_spent";
        case reason::deletes_exceeded:
            return "deletes_exceeded";
        case reason::paused:
            return "paused";
        case reason::cloned:
            return "cloned";
        case reason::clock_wrong:
            return "clock_wrong";
        case reason::record_unreadable:
            return "record_unreadable";
    }
    return "";
}

}  // namespace policy
