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

}  // namespace policy
