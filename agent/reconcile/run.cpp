#include "agent/reconcile/run.hpp"

#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/observe.hpp"
#include "policy/backoff.hpp"
#include "policy/facts.hpp"
#include "policy/result.hpp"
#include "policy/words.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

namespace reconcile {

// ---- outcome

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

// ---- until everything is converged

namespace {

using namespace std::chrono_literals;

constexpr std::size_t parallel_exposures = 64;

// A person asked: retry now what is backing off.
io::awaitable<void> forget_backoffs(state& s, const state::hold& held, std::set<policy::user_name> only)
{
    const auto& exposure = held.exposure();
    std::vector<policy::user_name> waiting;
    for (const auto& [name, user] : s.stored().users)
        if (name.exposure == exposure && (only.empty() || only.contains(name)) &&
            policy::is_backing_off(user))
            waiting.push_back(name);
    for (const auto& name : waiting) {
        policy::user_event now = policy::event::retry_requested{};
        (void)co_await s.record(held, name, std::move(now));
    }
    const auto record = s.stored().exposures.find(exposure);
    const auto* named = s.exposure(exposure);
    if (!named || record == s.stored().exposures.end() || !record->second.failure) co_return;
    policy::exposure_event now = policy::event::retry_exposure{};
    (void)co_await s.record(held, *named, std::move(now));
}

bool is_waiting_by_choice(policy::reason why)
{
    return why == policy::reason::healthy || why == policy::reason::not_in_file ||
           why == policy::reason::paused;
}

user_report judge(const policy::user_index& all, const policy::decision& view,
                  const std::map<policy::user_name, std::string>& failed)
{
    user_report user{
        .name = view.name, .converged = is_waiting_by_choice(view.why), .sentence = view.sentence};
    const auto stored = all.stored.users.find(view.name);
    if (stored != all.stored.users.end()) {
        const auto* current = stored->second.find(stored->second.current);
        const bool hooks_pending = all.wanted(view.name) && current && !current->deployed_at;
        if (hooks_pending || stored->second.clear_failure) user.converged = false;
        if (hooks_pending && stored->second.deploy_failure)
            user.sentence = stored->second.deploy_failure->sentence;
    }
    if (const auto failure = failed.find(view.name); failure != failed.end()) {
        user.converged = false;
        user.sentence = failure->second;
    }
    return user;
}

void count(policy::tally& into, const policy::user_index& all, const policy::decision& view, bool converged)
{
    const bool paused = view.why == policy::reason::paused;
    if (!all.wanted(view.name)) {
        ++(view.next == "remove" ? into.removing : into.kept);
        return;
    }
    ++into.wanted;
    if (paused)
        ++into.paused;
    else if (converged)
        ++into.up_to_date;
}

std::string did_you_mean(const state& s, const policy::user_name& name)
{
    std::vector<std::string> known;
    for (const auto& exposure : s.desired().exposures)
        for (const auto& user : exposure.users)
            known.push_back(policy::user_name{exposure.name, user.name}.text());
    const auto meant = policy::nearest(name.text(), known);
    return meant.empty() ? "" : "; did you mean " + meant + "?";
}

// Tells a person who waits what the run is waiting for.
class wait_reporter {
public:
    wait_reporter(std::string exposure, std::chrono::steady_clock::time_point start)
        : exposure_(std::move(exposure)), tell_at_(start + first_wait_report)
    {
    }

    void report(const pass_outcome& last, const std::set<policy::user_name>& only,
                std::chrono::steady_clock::time_point now)
    {
        if (now < tell_at_) return;
        tell_at_ = now + wait_report_every;
        if (last.observe_failed)
            return io::log(io::severity::info, "waiting: " + last.observe_failed->context);
        for (const auto& view : last.plan.users)
            if (view.name.exposure == exposure_ && (only.empty() || only.contains(view.name)) &&
                !is_waiting_by_choice(view.why))
                io::log(io::severity::info, {}, {view.name.exposure, view.name.user, {}},
                        "waiting: " + policy::about(view.name, view.sentence));
    }

private:
    std::string exposure_;
    std::chrono::steady_clock::time_point tell_at_;
};

void tell(report& into, state& s, const std::string& exposure, const pass_outcome& last,
          const std::map<policy::user_name, std::string>& failed, const std::set<policy::user_name>& only)
{
    if (last.observe_failed)
        into.exposures.emplace(exposure, *last.observe_failed);
    else
        ++into.reached;
    for (const auto& view : last.plan.exposures)
        if (view.name.exposure == exposure && view.blocked) into.incidents.emplace(exposure, view.sentence);
    const auto desired = s.desired_for(exposure);
    const policy::user_index all(*desired, s.observed(), s.stored());
    for (const auto& view : last.plan.users)
        if (view.name.exposure == exposure && (only.empty() || only.contains(view.name))) {
            into.users.push_back(judge(all, view, failed));
            count(into.users_in_short, all, view, into.users.back().converged);
        }
}

// Runs passes over one exposure until there is nothing to wait for or the time is up. Releases the exposure's
// lock between passes.
io::awaitable<void> run_exposure(state& s, std::string exposure, pass_options options,
                                 std::chrono::steady_clock::time_point deadline, turn_begins begin,
                                 step_listener listener, report& into)
{
    exposure_pass pass(s, exposure, std::move(listener));
    wait_reporter waits(exposure, s.outside().clock.steady());
    pass_outcome last;
    for (bool first = true;; first = false) {
        {
            auto held = co_await s.take(exposure);
            policy::result<void> begun;
            if (first && begin) begun = co_await begin(held);
            if (!begun) {
                into.exposures.emplace(exposure, begun.error());
                co_return;
            }
            if (first) co_await forget_backoffs(s, held, options.only);
            last = co_await pass.run(held, options);
            if (!last.soon || s.outside().clock.steady() + *last.soon > deadline) break;
        }
        waits.report(last, options.only, s.outside().clock.steady());
        if (auto slept = co_await s.outside().clock.sleep_for(*last.soon); !slept) break;
    }
    if (last.observe_failed && last.observe_failed->code == policy::errc::stopping)
        last.observe_failed->context =
            "exposure " + exposure +
            ": not finished when --timeout or a signal ended the command; run it again";
    tell(into, s, exposure, last, pass.failed(), options.only);
}

}  // namespace

io::awaitable<report> run(state& s, run_options options, step_listener listener)
{
    const auto names = exposures_of(s, options.only);
    const std::vector<std::string> exposures(names.begin(), names.end());
    const auto deadline = s.outside().clock.steady() + options.timeout;
    const pass_options pass{.plan = options.plan,
                            .only = options.only,
                            .interactive = true,
                            .logs_failures = options.logs_failures,
                            .from = options.from};
    report total;
    co_await io::for_each_parallel(
        parallel_exposures, exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            co_await run_exposure(s, exposures[i], pass, deadline, options.begin, listener, total);
        });
    std::ranges::sort(total.users, {}, &user_report::name);
    co_return total;
}

io::awaitable<void> forget_login_failures(state& s)
{
    for (const auto& exposure : all_exposures(s)) {
        const auto& stored = s.stored();
        const auto waits = [&](const auto& user) {
            return user.first.exposure == exposure && policy::after_login(user.second);
        };
        const auto known = stored.exposures.find(exposure);
        const bool unreached = known != stored.exposures.end() && policy::after_login(known->second);
        if (!unreached && std::ranges::none_of(stored.users, waits)) continue;
        const auto held = co_await s.take(exposure);
        std::vector<policy::user_name> names;
        for (const auto& user : stored.users)
            if (waits(user)) names.push_back(user.first);
        for (const auto& name : names) {
            auto over = *policy::after_login(s.user(held, name));
            if (auto saved = co_await s.record(held, name, std::move(over)); !saved)
                io::log(io::severity::error, saved.error().context);
        }
        const auto* named = s.exposure(exposure);
        auto over = named ? policy::after_login(s.exposure_record(held, *named)) : std::nullopt;
        if (!over) continue;
        if (auto saved = co_await s.record(held, *named, std::move(*over)); !saved)
            io::log(io::severity::error, saved.error().context);
    }
}

policy::result<void> check_names(const state& s, const std::set<policy::user_name>& names)
{
    for (const auto& name : names)
        if (!s.wanted(name) && !s.stored().users.contains(name))
            return policy::failure{
                .code = policy::errc::usage,
                .context = name.text() + " is not in the configuration" + did_you_mean(s, name),
                .kind = policy::retry::never};
    return {};
}

std::set<std::string> all_exposures(const state& s)
{
    std::set<std::string> names;
    for (const auto& exposure : s.desired().exposures)
        names.insert(exposure.name);
    for (const auto& [name, user] : s.stored().users)
        names.insert(name.exposure);
    return names;
}

std::set<std::string> exposures_of(const state& s, const std::set<policy::user_name>& only)
{
    if (only.empty()) return all_exposures(s);
    std::set<std::string> names;
    for (const auto& name : only)
        names.insert(name.exposure);
    return names;
}

// ---- `plan`

namespace {

// `next_lists` gets the exposures whose users `reconcile` would not list now, and when it would.
io::awaitable<void> observe_everywhere(state& s, preview& into,
                                       std::map<std::string, policy::instant>& next_lists)
{
    const auto exposures = s.desired().exposures;
    co_await io::for_each_parallel(
        parallel_exposures, exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            const auto& exposure = exposures[i];
            const auto now = s.outside().clock.now();
            auto asked = policy::inquiry_of(s.desired(), exposure, s.stored(), now);
            if (asked.next_list) next_lists.emplace(exposure.name, *asked.next_list);
            asked.list = asked.others = true;  // unmanaged users are shown as well
            const auto owner = s.stored().owner;
            auto seen = co_await observe(s.outside().api, exposure, asked, owner, now);
            if (seen.error)
                into.unreached.emplace(exposure.name, *seen.error);
            else
                ++into.reach.reached;
            s.observed().exposures[exposure.name] = std::move(seen);
            note_clocks(s, exposure.name);
        });
    into.reach.exposures = into.unreached;
}

// Only in memory: nothing changes on disk.
io::awaitable<void> assume_observations(state& s)
{
    const auto now = s.outside().clock.now();
    for (const auto& exposure : s.desired().exposures) {
        const auto held = co_await s.take(exposure.name);
        for (const auto& [name, events] : policy::observations(s.stored(), s.observed(), exposure.name))
            for (const auto& what : events)
                s.user(held, name) = policy::apply(s.user(held, name), what, now);
    }
}

// Later steps depend on remember_instance, which is only bookkeeping: the plan is made as if it had been
// done.
io::awaitable<bool> assume_known_instances(state& s, const policy::plan_result& plan)
{
    bool assumed = false;
    for (const auto& a : plan.actions) {
        if (a.kind != policy::action_kind::remember_instance) continue;
        const auto held = co_await s.take(a.name.exposure);
        s.exposure_record(held, *s.exposure(a.name.exposure)).where.instance_id = a.remote_id;
        assumed = true;
    }
    co_return assumed;
}

void add_change(preview& p, const policy::action& a)
{
    const std::string word = policy::contract_word(a);
    const auto same = [&](const policy::decision& c) { return c.name == a.name && c.next == word; };
    if (word.empty() || std::ranges::any_of(p.changes, same)) return;
    p.changes.push_back({.name = a.name, .why = a.why, .sentence = a.sentence, .next = word});
}

// A duplicate that only the list of `plan` shows: `reconcile` deletes it after its own next list.
void add_later(preview& p, const policy::action& a, policy::instant at)
{
    p.later.push_back({.name = a.name,
                       .why = a.why,
                       .sentence = a.sentence,
                       .next = std::string(policy::contract_word(a)),
                       .next_at = at});
}

// Users that wait for an instance are created right after it: show them as well.
void add_after_onboarding(preview& p, const state& s)
{
    const auto onboarding = p.changes;
    for (const auto& exposure : s.desired().exposures) {
        const bool first = std::ranges::any_of(onboarding, [&](const policy::decision& c) {
            return c.name.exposure == exposure.name && c.next == "onboard";
        });
        if (!first) continue;
        for (const auto& view : p.plan.users)
            if (view.name.exposure == exposure.name && !view.next.empty() && !view.next_at && !view.blocked)
                p.changes.push_back({.name = view.name,
                                     .why = policy::reason::absent,
                                     .sentence = "no certificate yet",
                                     .next = view.next});
    }
}

}  // namespace

io::awaitable<preview> preview_of(state& s, policy::plan_options options)
{
    preview p;
    co_await s.inspect_outputs("");
    std::map<std::string, policy::instant> next_lists;
    if (!policy::is_decommissioned(s.stored())) co_await observe_everywhere(s, p, next_lists);
    co_await assume_observations(s);
    const auto now = s.outside().clock.now();
    p.plan = policy::plan(s.desired(), s.observed(), s.stored(), now, options);
    const bool assumed = co_await assume_known_instances(s, p.plan);
    if (assumed) p.plan = policy::plan(s.desired(), s.observed(), s.stored(), now, options);

    p.later = p.plan.later;
    for (const auto& a : p.plan.actions) {
        const auto next = next_lists.find(a.name.exposure);
        if (a.kind == policy::action_kind::retire_surplus && next != next_lists.end())
            add_later(p, a, next->second);
        else
            add_change(p, a);
    }
    add_after_onboarding(p, s);
    for (const auto& view : p.plan.users)
        if (view.blocked) p.blocked.push_back(view);
    for (const auto& view : p.plan.exposures)
        if (view.blocked && !p.unreached.contains(view.name.exposure) &&
            std::ranges::find(p.blocked, view.sentence, &policy::decision::sentence) == p.blocked.end())
            p.blocked.push_back(view);
    std::ranges::stable_sort(p.later, {}, &policy::decision::next_at);
    p.unmanaged = p.plan.unmanaged;
    co_return p;
}

}  // namespace reconcile
