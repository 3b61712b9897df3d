#include "policy/requests.hpp"

namespace policy {

bool can_roll_back(const stored_user& user)
{
    const auto* before = user.find(user.previous);
    return before && before->certificate && !before->missing_since;
}

failure no_way_back(const user_name& name)
{
    return {.code = errc::usage,
            .context = name.text() + ": no previous certificate to return to",
            .kind = retry::never};
}

result<action> roll_back(const stored_user& user)
{
    if (!can_roll_back(user)) return no_way_back(user.name);
    return action{.kind = action_kind::publish,
                  .name = user.name,
                  .why = reason::rolled_back,
                  .sentence = "previous certificate restored by rollback",
                  .generation = user.previous,
                  .remote_id = {}};
}

std::optional<action> pending_hooks(const stored_user& user, bool force)
{
    const auto* current = user.find(user.current);
    if (!current || (current->deployed_at && !force)) return std::nullopt;
    return action{.kind = action_kind::deploy,
                  .name = user.name,
                  .why = reason::hooks_pending,
                  .sentence = "hooks have not all returned 0",
                  .generation = current->id,
                  .remote_id = {}};
}

}  // namespace policy
