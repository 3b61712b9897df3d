#include "policy/notify.hpp"

#include "policy/backoff.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"
#include "policy/plan.hpp"

#include <algorithm>

namespace policy {
namespace {

using namespace std::chrono_literals;

constexpr duration patience = 1h;  // before reporting what may resolve itself

// A case as observed now; without a `since` it starts when it is first seen.
struct seen_case {
    notify_case what;
    std::string subject;
    std::string message;
    std::string remedy;
    std::optional<instant> since = {};
    duration wait = 0s;
};

std::string command(const std::string& verb, const std::string& name = "")
{
    return "exposure-agent " + verb + (name.empty() ? "" : " " + name);
}

// Covered by the login's own case; an exposure's record may be older.
bool is_of_login(std::string_view reason, const login_facts& login)
{
    if (reason == word_of(errc::login_required) || reason == word_of(errc::client_refused)) return true;
    return login.required && (reason == word_of(errc::unauthorized) || reason == word_of(errc::token_source));
}

void add_login(std::vector<seen_case>& found, const login_facts& login)
{
    if (!login.required && !login.failing) return;
    found.push_back({notify_case::login, "login",
                     login.sentence.empty() ? "not logged in: no certificate is rotated" : login.sentence,
                     command("login"), login.since, login.required ? 0s : patience});
}

void add_exposures(std::vector<seen_case>& found, const notify_facts& facts)
{
    for (const auto& wanted : facts.desired.exposures) {
        const auto kept = facts.stored.exposures.find(wanted.name);
        if (kept == facts.stored.exposures.end()) continue;
        const auto& name = wanted.name;
        const auto& exposure = kept->second;
        const auto about_it = [&](const std::string& sentence) {
            return about("exposure " + name, sentence);
        };
        if (exposure.blocked)
            found.push_back({notify_case::blocked, name, about_it(exposure.blocked->sentence),
                             command("status"), exposure.blocked->since});
        else if (exposure.failure && exposure.failure->kind != retry::later &&
                 !is_of_login(word_of(exposure.failure->code), facts.login))
            found.push_back(
                {notify_case::blocked, name, about_it(exposure.failure->sentence), command("doctor")});
    }
}

void add_user(std::vector<seen_case>& found, const user_status& s, const notify_facts& facts, instant now)
{
    const auto name = s.name.text();
    const auto exposure = facts.stored.exposures.find(s.name.exposure);
    const bool exposure_blocked = exposure != facts.stored.exposures.end() && exposure->second.blocked;
    const bool told_otherwise = is_of_login(s.reason, facts.login) || exposure_blocked;
    if (s.state == user_state::blocked && s.attention && !told_otherwise) {
        const auto kept = facts.stored.users.find(s.name);
        std::optional<instant> since;
        if (kept != facts.stored.users.end() && kept->second.blocked) since = kept->second.blocked->since;
        found.push_back(
            {notify_case::blocked, name, about(s.name, s.sentence), command("explain", name), since});
    }
    if (s.state == user_state::removing) return;
    if (s.deploy == deploy_state::failed) {
        const auto kept = facts.stored.users.find(s.name);
        found.push_back({notify_case::hook, name, about(s.name, kept->second.deploy_failure->sentence),
                         command("deploy", name), std::nullopt, patience});
    }
    const auto* c = s.current && s.current->certificate ? &*s.current->certificate : nullptr;
    const auto warning = facts.desired.notify.expiry_warning;
    if (c && c->expiry() - now < warning)
        found.push_back({notify_case::expiry, name,
                         name + ": certificate " + (c->expiry() <= now ? "expired at " : "expires at ") +
                             format_utc(c->expiry()),
                         command("explain", name),
                         std::max(c->expiry() - warning, s.current->published_at.value_or(c->not_before))});
}

std::vector<seen_case> cases_of(const notify_facts& facts, instant now)
{
    std::vector<seen_case> found;
    if (is_decommissioned(facts.stored)) return found;
    add_login(found, facts.login);
    if (facts.stored.cloned)
        found.push_back({notify_case::blocked, "state directory",
                         "the state directory " + facts.desired.state_dir +
                             " was copied from another machine, so nothing is sent or deleted",
                         command("takeover")});
    else
        add_exposures(found, facts);
    for (const auto& s : statuses(facts.desired, facts.stored, now))
        add_user(found, s, facts, now);
    if (!facts.diagnostics.empty())
        found.push_back({notify_case::configuration, "configuration",
                         "the edited configuration is not in force: " + facts.diagnostics.front(),
                         command("check"), std::nullopt, patience});
    return found;
}

const char* ended(notify_case what)
{
    switch (what) {
        case notify_case::login:
            return "the login works again";
        case notify_case::blocked:
            return "no longer blocked";
        case notify_case::hook:
            return "hooks no longer fail";
        case notify_case::expiry:
            return "the certificate in use is no longer close to expiry";
        case notify_case::configuration:
            return "the configuration file is in force again";
        case notify_case::test:
            break;
    }
    return "";
}

notification over(const known_case& k)
{
    const bool named = k.what == notify_case::login || k.what == notify_case::configuration;
    return {.state = notify_state::over,
            .what = k.what,
            .subject = k.subject,
            .since = k.since,
            .message = named ? ended(k.what) : k.subject + ": " + ended(k.what),
            .remedy = {}};
}

bool is_same(const known_case& k, notify_case what, const std::string& subject)
{
    return k.what == what && k.subject == subject;
}

void earlier(std::optional<instant>& first, instant at)
{
    if (!first || at < *first) first = at;
}

}  // namespace

notify_decision notifications(const notify_facts& facts, const notify_memory& before, instant now)
{
    notify_decision decision{.due = {}, .memory = before, .wake_at = std::nullopt};
    decision.memory.cases.clear();
    for (auto& seen : cases_of(facts, now)) {
        const auto known = std::ranges::find_if(
            before.cases, [&](const known_case& k) { return is_same(k, seen.what, seen.subject); });
        known_case k{.what = seen.what,
                     .subject = std::move(seen.subject),
                     .since = seen.since.value_or(now),
                     .message = std::move(seen.message),
                     .remedy = std::move(seen.remedy)};
        if (known != before.cases.end()) {
            k.since = std::min(known->since, now);
            if (known->told_at) k.told_at = std::min(*known->told_at, now);
        }
        const auto due_at = k.told_at ? *k.told_at + facts.desired.notify.repeat : k.since + seen.wait;
        if (due_at <= now)
            decision.due.push_back({.state = k.told_at ? notify_state::repeated : notify_state::raised,
                                    .what = k.what,
                                    .subject = k.subject,
                                    .since = k.since,
                                    .message = k.message,
                                    .remedy = k.remedy});
        else
            earlier(decision.wake_at, due_at);
        decision.memory.cases.push_back(std::move(k));
    }
    for (const auto& k : before.cases) {
        const bool goes_on = std::ranges::any_of(
            decision.memory.cases, [&](const known_case& now_) { return is_same(now_, k.what, k.subject); });
        if (goes_on || !k.told_at) continue;
        decision.due.push_back(over(k));
        decision.memory.cases.push_back(k);
    }
    if (decision.due.empty()) {  // what could not be told is over
        decision.memory.failure.reset();
        decision.memory.failing_since.reset();
    }
    const auto& failure = before.failure;
    if (!decision.due.empty() && failure && failure->last <= now && failure->next_attempt &&
        *failure->next_attempt > now) {
        decision.due.clear();
        earlier(decision.wake_at, *failure->next_attempt);
    }
    return decision;
}

notify_memory after_sending(notify_memory memory, const notification& sent, instant now)
{
    ++memory.sent;
    memory.failure.reset();
    memory.failing_since.reset();
    const auto same = [&](const known_case& k) { return is_same(k, sent.what, sent.subject); };
    if (sent.state == notify_state::over) {
        std::erase_if(memory.cases, same);
        return memory;
    }
    if (const auto known = std::ranges::find_if(memory.cases, same); known != memory.cases.end())
        known->told_at = now;
    return memory;
}

notify_memory after_sending(notify_memory memory, const failure& why, instant now)
{
    ++memory.failed;
    memory.failure = remember(memory.failure, why, "", std::nullopt, now);
    if (!memory.failing_since) memory.failing_since = now;
    return memory;
}

notification test_notification(const std::string& owner, instant now)
{
    return {.state = notify_state::test,
            .what = notify_case::test,
            .subject = owner,
            .since = now,
            .message = "test notification of exposure-agent " + owner + "; nothing needs to be done",
            .remedy = {}};
}

}  // namespace policy
