#include "agent/service/schedule.hpp"

#include "crypto/digest.hpp"

#include <algorithm>
#include <cstdint>

namespace service {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest = std::chrono::seconds(1);  // a plan that is due now and does nothing

bool is_due(const policy::standing& s)
{
    return s.state != policy::user_state::valid || s.deploy == policy::deploy_state::pending ||
           s.deploy == policy::deploy_state::failed;
}

}  // namespace

milliseconds wait_after(const reconcile::pass_outcome& outcome,
                        const std::optional<policy::failure_memory>& exposure_failure,
                        policy::duration interval, policy::instant now)
{
    milliseconds wait = interval;
    const auto at_latest = [&](policy::instant at) {
        wait = std::min(wait, std::max<milliseconds>(at - now, shortest));
    };
    at_latest(outcome.plan.wake_at);
    if (exposure_failure && exposure_failure->next_attempt) at_latest(*exposure_failure->next_attempt);
    return outcome.soon ? std::min(wait, *outcome.soon) : wait;
}

milliseconds start_delay(const status_view& view, const std::string& seed)
{
    if (std::ranges::any_of(view.users, is_due)) return milliseconds(0);
    const auto print = crypto::sha256_hex(seed);
    const auto share = std::stoull(print.substr(0, 8), nullptr, 16);
    return milliseconds(share % static_cast<std::uint64_t>(start_spread.count()));
}

void debounce::happened(time_point now)
{
    if (!due_) first_ = now;
    due_ = std::min<time_point>(now + quiet, latest());
}

}  // namespace service
