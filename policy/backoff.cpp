#include "policy/backoff.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace policy {
namespace {

using namespace std::chrono_literals;

constexpr std::array<duration, 9> waits = {5s, 15s, 30s, 1min, 2min, 5min, 10min, 15min, 30min};
constexpr duration slow = 1h;          // retry interval for failures that need a change
constexpr std::int64_t attempts = 10;  // that must fit into a certificate's remaining validity
constexpr duration quickest = 5s;
constexpr std::array<duration, 2> short_waits = {1s, 3s};
constexpr duration granting_wait = 5s;

// Retrying on our own disk costs nothing, and nothing signals when a disk problem is fixed.
duration wait_for(int count, const failure& what)
{
    if (what.kind != retry::later && !is_local(what.code)) return slow;
    return waits[std::min<std::size_t>(static_cast<std::size_t>(std::max(count, 1) - 1), waits.size() - 1)];
}

bool is_granting(errc code, retry kind)
{
    return code == errc::probe_refused && kind == retry::later;
}

bool needs_login(const std::optional<failure_memory>& memory)
{
    return memory && (memory->code == errc::login_required || memory->code == errc::client_refused);
}

// Reports a block that is new or has ended, compared with the record.
template <class Event>
void add_verdict(std::vector<Event>& found, const std::optional<verdict>& kept, const decision& view)
{
    if (!view.blocked) {
        if (kept) found.emplace_back(event::unblocked{});
        return;
    }
    const std::string word = word_of(view.why);
    if (!kept || kept->reason != word || kept->sentence != view.sentence)
        found.emplace_back(event::blocked{word, view.sentence});
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

std::vector<const failure_memory*> failures_in(const stored_user& user)
{
    std::vector<const failure_memory*> found;
    for (const auto* memory : {&user.clear_failure, &user.deploy_failure, &user.failure})
        if (*memory) found.push_back(&**memory);
    return found;
}

bool is_backing_off(const stored_user& user)
{
    return std::ranges::any_of(failures_in(user), [](const auto* f) { return f->next_attempt.has_value(); });
}

std::optional<duration> short_wait(int attempt)
{
    if (attempt < 1 || attempt > static_cast<int>(short_waits.size())) return std::nullopt;
    return short_waits[static_cast<std::size_t>(attempt - 1)];
}

bool only_waits(errc code, retry kind) noexcept
{
    return is_granting(code, kind) || code == errc::throttled;
}

int failed_attempts(const stored_user& user)
{
    int count = 0;
    for (const auto* failed : failures_in(user))
        if (!only_waits(failed->code, failed->kind)) count += failed->count;
    return count;
}

std::optional<instant> soon_again(const failure& what, int attempt, instant now)
{
    const auto wait = is_granting(what.code, what.kind) ? std::optional(granting_wait) : short_wait(attempt);
    if (what.kind != retry::later || !wait) return std::nullopt;
    return now + std::max(*wait, what.retry_after.value_or(0s));
}

std::map<user_name, std::vector<user_event>> observations(const stored_state& stored,
                                                          const observed_state& observed,
                                                          const std::string& exposure)
{
    std::map<user_name, std::vector<user_event>> found;
    const auto seen = observed.exposures.find(exposure);
    if (seen == observed.exposures.end() || seen->second.error || stored.cloned) return found;
    std::unordered_map<std::string_view, std::pair<const user_name*, const generation*>> ours;
    for (const auto& [name, user] : stored.users)
        for (const auto& g : user.generations)
            if (name.exposure == exposure && g.certificate && !g.remote_id.empty())
                ours.emplace(g.remote_id, std::pair(&name, &g));
    for (const auto& user : seen->second.users) {
        const auto mine = ours.find(user.id);
        if (mine == ours.end() || !user.expiration_date) continue;
        const auto& [name, g] = mine->second;
        if (g->certificate->expiration_date != user.expiration_date)
            found[*name].emplace_back(event::expiration_seen{g->id, *user.expiration_date});
    }
    return found;
}

std::vector<user_event> conclusions(const stored_user& user, const decision& view)
{
    std::vector<user_event> found;
    if (!user.unreadable.empty()) return found;
    const auto* current = user.find(user.current);
    const event::recovered over{.step = user.failure && view.why == reason::healthy,
                                .hooks = user.deploy_failure && current && current->deployed_at,
                                .clearing = user.clear_failure && !view.clears};
    if (over.step || over.hooks || over.clearing) found.push_back(over);
    add_verdict(found, user.blocked, view);
    return found;
}

std::vector<exposure_event> conclusions(const stored_exposure& exposure, const decision& view)
{
    std::vector<exposure_event> found;
    if (exposure.unreadable.empty()) add_verdict(found, exposure.blocked, view);
    return found;
}

std::optional<user_event> after_login(const stored_user& user)
{
    const event::recovered over{.step = needs_login(user.failure),
                                .hooks = needs_login(user.deploy_failure),
                                .clearing = needs_login(user.clear_failure)};
    if (!user.unreadable.empty() || !(over.step || over.hooks || over.clearing)) return std::nullopt;
    return over;
}

std::optional<exposure_event> after_login(const stored_exposure& exposure)
{
    if (!exposure.unreadable.empty() || !needs_login(exposure.failure)) return std::nullopt;
    return event::exposure_recovered{};
}

}  // namespace policy
