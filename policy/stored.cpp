#include "policy/stored.hpp"

#include <algorithm>

namespace policy {

const generation* stored_user::find(const std::string& id) const
{
    const auto found = std::ranges::find(generations, id, &generation::id);
    return found == generations.end() ? nullptr : &*found;
}

generation* stored_user::find(const std::string& id)
{
    const auto found = std::ranges::find(generations, id, &generation::id);
    return found == generations.end() ? nullptr : &*found;
}

bool is_dead(const generation& g) noexcept
{
    return g.abandoned || g.missing_since || !g.quarantine.empty();
}

const generation* find_pending(const stored_user& have)
{
    for (auto it = have.generations.rbegin(); it != have.generations.rend(); ++it)
        if (it->id != have.current && !it->published_at && !is_dead(*it)) return &*it;
    return nullptr;
}

}  // namespace policy
