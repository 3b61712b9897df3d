#include "policy/backoff.hpp"

#include <algorithm>
#include <array>

namespace policy {
namespace {

using namespace std::chrono_literals;

constexpr std::array<duration, 9> waits = {5s, 15s, 30s, 1min, 2min, 5min, 10min, 15min, 30min};
constexpr duration slow = 1h;          // what waits for a change is looked at this often
constexpr std::int64_t attempts = 10;  // that fit into the rest of a certificate's life
constexpr duration quickest = 5s;
constexpr std::array<duration, 2> short_waits = {1s, 3s};
constexpr duration granting_wait = 5s;

// A look at our own disk costs nobody anything, and whoever mends it tells nobody.
duration wait_for(int count, const failure& what)
{
    if (what.kind != retry::later && !is_local(what.code)) return slow;
    return waits[std::min<std::size_t>(static_cast<std::size_t>(std::max(count, 1) - 1), waits.size() - 1)];
}

}  // namespace

failure_memory remember(const std::optional<failure_memory>& before, const failure& what,
                        const std::string& wanted, std::optional<instant> expiry, instant now)
{
    const bool same = before && before->wanted == wanted;
    failure_memory memory{.count = same ? before->count + 1 : 1,
                          .code = what.code,
                          .kind = what.kind,
                          .sentence = what.context,
                          .last = now,
                          .next_attempt = std::nullopt,
                          .wanted = wanted};
    auto wait = wait_for(memory.count, what);
    if (expiry && *expiry > now) wait = std::clamp<duration>((*expiry - now) / attempts, quickest, wait);
    memory.next_attempt = now + std::max(wait, what.retry_after.value_or(0s));
    return memory;
}

std::optional<instant> not_before(const std::optional<failure_memory>& memory, const std::string& wanted,
                                  instant now)
{
    if (!memory || memory->wanted != wanted || memory->last > now) return std::nullopt;
    return memory->next_attempt;
}

std::optional<duration> short_wait(int attempt)
{
    if (attempt < 1 || attempt > static_cast<int>(short_waits.size())) return std::nullopt;
    return short_waits[static_cast<std::size_t>(attempt - 1)];
}

bool is_granting(const failure& what) noexcept
{
    return what.code == errc::probe_refused && what.kind == retry::later;
}

std::optional<instant> soon_again(const failure& what, int attempt, instant now)
{
    const auto wait = is_granting(what) ? std::optional(granting_wait) : short_wait(attempt);
    if (what.kind != retry::later || !wait) return std::nullopt;
    return now + std::max(*wait, what.retry_after.value_or(0s));
}

bool forget_what_is_over(stored_user& user, const outlook& view)
{
    const auto* current = user.find(user.current);
    const bool step = user.failure && view.finding == reason::healthy;
    const bool hooks = user.deploy_failure && current && current->deployed_at;
    const bool clearing = user.clear_failure && !view.clears;
    if (step) user.failure.reset();
    if (hooks) user.deploy_failure.reset();
    if (clearing) user.clear_failure.reset();
    return step || hooks || clearing;
}

}  // namespace policy
