#include "agent/reconcile/report.hpp"

#include <algorithm>

namespace reconcile {
namespace {

bool is_login(policy::errc code)
{
    using policy::errc;
    return code == errc::login_required || code == errc::client_refused || code == errc::unauthorized ||
           code == errc::token_source;
}

bool is_unreached(policy::errc code)
{
    using policy::errc;
    return code == errc::not_resolved || code == errc::not_connected || code == errc::untrusted ||
           code == errc::no_answer || code == errc::timed_out;
}

}  // namespace

bool report::converged() const
{
    return exposures.empty() && incidents.empty() && credentials.empty() &&
           std::ranges::all_of(users, &user_report::converged);
}

int exit_code(const report& r) noexcept
{
    constexpr int done = 0, failed = 1, unreached = 69, login = 77;
    if (r.converged()) return done;
    const auto any = [&](auto predicate) {
        return std::ranges::any_of(r.exposures, [&](const auto& e) { return predicate(e.second.code); });
    };
    if (any(is_login)) return login;
    if (r.reached == 0 && any(is_unreached)) return unreached;
    return failed;
}

}  // namespace reconcile
