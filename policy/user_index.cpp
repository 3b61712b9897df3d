#include "policy/user_index.hpp"

namespace policy {
namespace {

exposure_index roster_of(const desired_exposure& exposure, const observed_exposure* seen)
{
    exposure_index r{.wanted = &exposure};
    for (const auto& user : exposure.users)
        r.users.emplace(user.name, &user);
    if (!seen) return r;
    for (const auto& user : seen->users) {
        r.by_id.emplace(user.id, &user);
        if (user.mark) r.by_key.emplace(user.mark->key, &user);
    }
    return r;
}

}  // namespace

user_index::user_index(const desired_state& d, const observed_state& o, const stored_state& s)
    : desired(d), observed(o), stored(s)
{
    for (const auto& exposure : desired.exposures) {
        const auto seen = observed.exposures.find(exposure.name);
        exposures_.emplace(exposure.name,
                           roster_of(exposure, seen == observed.exposures.end() ? nullptr : &seen->second));
    }
}

const exposure_index& user_index::of(const std::string& exposure) const
{
    static const exposure_index none;
    const auto found = exposures_.find(exposure);
    return found == exposures_.end() ? none : found->second;
}

const desired_user* user_index::wanted(const user_name& name) const
{
    const auto& users = of(name.exposure).users;
    const auto found = users.find(name.user);
    return found == users.end() ? nullptr : found->second;
}

}  // namespace policy
