#include "agent/reconcile/report.hpp"

#include "policy/result.hpp"

#include <algorithm>

namespace reconcile {

bool report::converged() const
{
    return exposures.empty() && incidents.empty() && credentials.empty() &&
           std::ranges::all_of(users, &user_report::converged);
}

int exit_code(const report& r) noexcept
{
    namespace code = policy::exit_code;
    if (r.converged()) return code::done;
    const auto any = [&r](int wanted) {
        const auto is = [wanted](const auto& entry) { return code::of(entry.second.code) == wanted; };
        return std::ranges::any_of(r.exposures, is) || std::ranges::any_of(r.credentials, is);
    };
    if (any(code::login)) return code::login;
    if (r.reached == 0 && any(code::unreachable)) return code::unreachable;
    return code::failed;
}

}  // namespace reconcile
