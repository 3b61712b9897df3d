#include "agent/reconcile/run.hpp"

#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "policy/backoff.hpp"
#include "policy/facts.hpp"
#include "policy/words.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

namespace reconcile {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t parallel_exposures = 64;

// A person asks: what waits for its time is tried now.
io::awaitable<void> forget_backoffs(world& w, const world::hold& held, std::set<policy::user_name> only)
{
    const auto& exposure = held.exposure();
    std::vector<policy::user_name> waiting;
    for (const auto& [name, user] : w.stored().users)
        if (name.exposure == exposure && (only.empty() || only.contains(name)) &&
            policy::is_backing_off(user))
            waiting.push_back(name);
    for (const auto& name : waiting) {
        policy::user_event now = policy::event::retry_requested{};
        (void)co_await w.record(held, name, std::move(now));
    }
    const auto record = w.stored().exposures.find(exposure);
    const auto* named = w.exposure(exposure);
    if (!named || record == w.stored().exposures.end() || !record->second.failure) co_return;
    policy::exposure_event now = policy::event::retry_exposure{};
    (void)co_await w.record(held, *named, std::move(now));
}

std::set<std::string> exposures_of(const world& w, const std::set<policy::user_name>& only)
{
    if (only.empty()) return all_exposures(w);
    std::set<std::string> names;
    for (const auto& name : only)
        names.insert(name.exposure);
    return names;
}

bool is_waiting_by_choice(policy::reason why)
{
    return why == policy::reason::healthy || why == policy::reason::not_in_file ||
           why == policy::reason::paused;
}

user_report judge(const policy::user_index& all, const policy::decision& view,
                  const std::map<policy::user_name, std::string>& failed)
{
    user_report user{.name = view.name,
                     .converged = is_waiting_by_choice(view.why),
                     .sentence = view.sentence,
                     .removing = view.why == policy::reason::not_in_file};
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

std::string did_you_mean(const world& w, const policy::user_name& name)
{
    std::vector<std::string> known;
    for (const auto& exposure : w.desired().exposures)
        for (const auto& user : exposure.users)
            known.push_back(policy::user_name{exposure.name, user.name}.text());
    const auto meant = policy::nearest(name.text(), known);
    return meant.empty() ? "" : "; did you mean " + meant + "?";
}

// A person who waits is told what for.
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
                        "waiting: " + view.sentence);
    }

private:
    std::string exposure_;
    std::chrono::steady_clock::time_point tell_at_;
};

void tell(report& into, world& w, const std::string& exposure, const pass_outcome& last,
          const std::map<policy::user_name, std::string>& failed, const std::set<policy::user_name>& only)
{
    if (last.observe_failed)
        into.exposures.emplace(exposure, *last.observe_failed);
    else
        ++into.reached;
    for (const auto& view : last.plan.exposures)
        if (view.name.exposure == exposure && view.blocked) into.incidents.emplace(exposure, view.sentence);
    const auto desired = w.desired_for(exposure);
    const policy::user_index all(*desired, w.observed(), w.stored());
    for (const auto& view : last.plan.users)
        if (view.name.exposure == exposure && (only.empty() || only.contains(view.name)))
            into.users.push_back(judge(all, view, failed));
}

// Passes over one exposure until there is nothing to wait for, or time is over. Others have their turn
// between two of them.
io::awaitable<void> run_exposure(world& w, std::string exposure, pass_options options,
                                 std::chrono::steady_clock::time_point deadline, turn_begins begin,
                                 step_listener listener, report& into)
{
    exposure_pass pass(w, exposure, std::move(listener));
    wait_reporter waits(exposure, w.outside().clock.steady());
    pass_outcome last;
    for (bool first = true;; first = false) {
        {
            auto held = co_await w.take(exposure);
            policy::result<void> begun;
            if (first && begin) begun = co_await begin(held);
            if (!begun) {
                into.exposures.emplace(exposure, begun.error());
                co_return;
            }
            if (first) co_await forget_backoffs(w, held, options.only);
            last = co_await pass.run(held, options);
            if (!last.soon || w.outside().clock.steady() + *last.soon > deadline) break;
        }
        waits.report(last, options.only, w.outside().clock.steady());
        if (auto slept = co_await w.outside().clock.sleep_for(*last.soon); !slept) break;
    }
    tell(into, w, exposure, last, pass.failed(), options.only);
}

}  // namespace

io::awaitable<report> run(world& w, run_options options, step_listener listener)
{
    const auto names = exposures_of(w, options.only);
    const std::vector<std::string> exposures(names.begin(), names.end());
    const auto deadline = w.outside().clock.steady() + options.timeout;
    const pass_options pass{
        .plan = options.plan, .only = options.only, .interactive = true, .from = options.from};
    report total;
    co_await io::for_each_parallel(
        parallel_exposures, exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            co_await run_exposure(w, exposures[i], pass, deadline, options.begin, listener, total);
        });
    std::ranges::sort(total.users, {}, &user_report::name);
    co_return total;
}

policy::result<void> check_names(const world& w, const std::set<policy::user_name>& names)
{
    for (const auto& name : names)
        if (!w.wanted(name) && !w.stored().users.contains(name))
            return policy::failure{
                .code = policy::errc::usage,
                .context = name.text() + " is not a user of the configuration" + did_you_mean(w, name),
                .kind = policy::retry::never};
    return {};
}

std::set<std::string> all_exposures(const world& w)
{
    std::set<std::string> names;
    for (const auto& exposure : w.desired().exposures)
        names.insert(exposure.name);
    for (const auto& [name, user] : w.stored().users)
        names.insert(name.exposure);
    return names;
}

}  // namespace reconcile
