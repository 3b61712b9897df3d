#include "policy/action.hpp"

#include <array>
#include <cstddef>

namespace policy {
namespace {

// What a step asks of the platform.
enum class use { none, reads, creates, deletes };

constexpr const char* renewal = nullptr;  // "create", or "rotate" where there is a certificate already

struct traits {
    action_kind kind;
    const char* word;  // of the contract; empty: bookkeeping
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

}  // namespace policy
