#include "policy/action.hpp"

#include <array>
#include <cstddef>

namespace policy {
namespace {

// How an action uses the platform.
enum class use { none, reads, creates, deletes };

constexpr const char* renewal = nullptr;  // "create", or "rotate" when a certificate already exists

struct traits {
    action_kind kind;
    const char* word;  // in the contract; empty: bookkeeping
    use platform = use::none;
    attempt failure = attempt::step;
};

constexpr std::array<traits, 21> table = {{
    {action_kind::onboard, "onboard", use::creates},
    {action_kind::remember_instance, ""},
    {action_kind::forget_instance, ""},
    {action_kind::issue, renewal, use::creates},
    {action_kind::submit, renewal, use::creates},
    {action_kind::adopt, "adopt"},
    {action_kind::discard, renewal},
    {action_kind::abandon, renewal},
    {action_kind::disown, renewal},
    {action_kind::mark_missing, renewal},
    {action_kind::collect, "publish", use::reads},
    {action_kind::verify, "publish"},
    {action_kind::publish, "publish"},
    {action_kind::deploy, "deploy", use::none, attempt::hooks},
    {action_kind::delete_before_replace, renewal, use::deletes},
    {action_kind::retire, "retire", use::deletes, attempt::clearing},
    {action_kind::retire_surplus, "retire", use::deletes, attempt::clearing},
    {action_kind::mark_unwanted, "remove"},
    {action_kind::mark_wanted, ""},
    {action_kind::remove, "remove", use::deletes},
    {action_kind::forget, "remove"},
}};

constexpr bool is_in_order()
{
    for (std::size_t i = 0; i < table.size(); ++i)
        if (table[i].kind != static_cast<action_kind>(i)) return false;
    return true;
}
static_assert(is_in_order());

constexpr const traits& of(action_kind kind)
{
    return table[static_cast<std::size_t>(kind)];
}

}  // namespace

bool needs_platform(action_kind kind) noexcept
{
    return of(kind).platform != use::none;
}

bool changes_platform(action_kind kind) noexcept
{
    return of(kind).platform == use::creates || deletes(kind);
}

bool deletes(action_kind kind) noexcept
{
    return of(kind).platform == use::deletes;
}

attempt attempt_of(action_kind kind) noexcept
{
    return of(kind).failure;
}

const char* contract_word(const action& a) noexcept
{
    const auto* word = of(a.kind).word;
    if (word != renewal) return word;
    return a.replaces ? "rotate" : "create";
}

bool can_roll_back(const stored_user& user)
{
    const auto* before = user.find(user.previous);
    return before && before->certificate && !before->missing_since;
}

failure no_way_back(const user_name& name)
{
    return {.code = errc::refused,
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

std::vector<action> without(const stored_user& user, const std::set<std::string>& ids)
{
    std::vector<action> steps;
    const auto* current = user.find(user.current);
    const auto* pending = find_pending(user);
    if (!current || !current->deployed_at || user.unwanted_since) return steps;
    for (const auto& g : user.generations)
        if (&g != current && &g != pending && ids.contains(g.remote_id))
            steps.push_back({.kind = action_kind::retire,
                             .name = user.name,
                             .why = reason::superseded,
                             .sentence = "a person deleted it",
                             .generation = g.id,
                             .remote_id = g.remote_id});
    return steps;
}

std::optional<action> pending_hooks(const stored_user& user, bool force)
{
    const auto* current = user.find(user.current);
    if (!current || (current->deployed_at && !force)) return std::nullopt;
    return action{.kind = action_kind::deploy,
                  .name = user.name,
                  .why = reason::hooks_pending,
                  .sentence = "not all hooks have succeeded yet",
                  .generation = current->id,
                  .remote_id = {}};
}

}  // namespace policy
