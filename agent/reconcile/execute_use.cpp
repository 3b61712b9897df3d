#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/execute.hpp"
#include "policy/action.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"

namespace reconcile {
namespace {

using deploy::verify_verdict;

// Reads the pair. Blocks: run it on the pool.
policy::result<deploy::verify_request> verify_request_of(disk::store& store,
                                                         const policy::desired_exposure& exposure,
                                                         const policy::generation& g, const std::string& user)
{
    const policy::user_name name{exposure.name, user};
    auto key = store.read_key(name, g.id);
    if (!key) return key.error();
    auto certificate = store.read_certificate(name, g.id);
    if (!certificate) return certificate.error();
    return deploy::verify_request{.exposure = exposure.name,
                                  .user = user,
                                  .broker = exposure.broker,
                                  .broker_ca_file = exposure.broker_ca_file,
                                  .topic = exposure.topic,
                                  .consumer_group = g.sent.consumer_group,
                                  .key_pem = std::move(*key),
                                  .certificate_pem = std::move(*certificate)};
}

// What the broker says about the pair in use, for the end of the message; the pair always stays in use.
std::string of_pair_in_use(const policy::generation* current,
                           const policy::result<deploy::verify_answer>& in_use)
{
    if (!current) return "; nothing is published until it does";
    if (!in_use || in_use->verdict == verify_verdict::unreachable) return "; keeping the certificate in use";
    if (in_use->verdict == verify_verdict::accepted)
        return "; it still accepts the certificate in use, which is kept";
    return "; it does not accept the certificate in use either (" + in_use->evidence + "), which is kept";
}

// The hint for a topic that the broker does not grant: the platform's instance is the topic, so the two names
// are probably the same.
std::string check_topic(const policy::desired_exposure& exposure, const policy::observed_state& observed)
{
    const auto seen = observed.exposures.find(exposure.name);
    const bool known = seen != observed.exposures.end() && seen->second.instances.size() == 1;
    const auto instance = known ? seen->second.instances.front().name : "";
    std::string text = "; check `topic` of exposure " + exposure.name + " (" + exposure.topic + ")";
    if (!instance.empty() && instance != exposure.topic)
        text += ": the platform's instance is named " + instance;
    return text;
}

// A refusal may mean that access is still being granted; after limits::probe_patience a person has to act.
policy::failure not_verified(const policy::user_name& name, const std::string& common_name,
                             const deploy::verify_answer& answer, const std::string& in_use,
                             const std::string& topic, bool interactive)
{
    const bool unreachable = answer.verdict == verify_verdict::unreachable;
    std::string sentence = name.text() + ": the broker " +
                           (unreachable ? "did not confirm that it accepts the new certificate ("
                                        : "does not accept the new certificate (") +
                           answer.evidence + ")" + in_use;
    if (unreachable)
        sentence += ". Retrying. To check the connection to the broker, run: exposure-agent doctor";
    else if (interactive)
        sentence += "; retrying, as the platform may still be granting access" + topic;
    else
        sentence += topic + "; ask the platform's operator why " + common_name +
                    " has no access. Retries every hour. To retry now, run: exposure-agent reconcile";
    return {.code = unreachable ? policy::errc::probe_unreachable : policy::errc::probe_refused,
            .context = sentence,
            .kind = unreachable || interactive ? policy::retry::later : policy::retry::after_change};
}

// A hook that fails right after a switch may mean that the consumer cannot use the new certificate.
policy::failure with_way_back(policy::failure failed, const policy::stored_user& user)
{
    if (policy::can_roll_back(user) && user.held.empty())
        failed.context +=
            "; to return to the previous certificate, run: exposure-agent rollback " + user.name.text();
    return failed;
}

}  // namespace

// ---- verify

// Also tries the pair in use, to tell "this pair is refused" from "the broker is down".
io::task<void> executor::verify(const policy::action& a)
{
    const auto exposure = *state_.exposure(a.name.exposure);
    auto& outside = state_.outside();
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto g = *found;
    auto request = co_await io::offload(
        pool(), [&] { return verify_request_of(outside.store, exposure, g, a.name.user); });
    if (!request) co_return request.error();
    auto answer = co_await outside.verifier.ask(std::move(*request));
    if (!answer) co_return answer.error();

    const auto* current = state_.user(held_, a.name).find(state_.user(held_, a.name).current);
    const bool in_use_expired = current && current->certificate && current->certificate->expiry() <= now();
    if (answer->verdict == verify_verdict::accepted ||
        (answer->verdict == verify_verdict::unreachable && in_use_expired)) {
        policy::user_event verified = policy::event::verified{
            g.id, answer->verdict == verify_verdict::accepted ? policy::verification::broker
                                                              : policy::verification::local};
        co_return co_await record(a, std::move(verified));
    }

    policy::result<deploy::verify_answer> in_use = policy::failure{};
    if (current) {
        auto pair = co_await io::offload(
            pool(), [&] { return verify_request_of(outside.store, exposure, *current, a.name.user); });
        if (pair) in_use = co_await outside.verifier.ask(std::move(*pair));
    }
    const bool interactive = g.collected_at && now() - *g.collected_at < policy::limits::probe_patience;
    const auto topic = answer->verdict == verify_verdict::topic_not_granted
                           ? check_topic(exposure, state_.observed())
                           : std::string();
    co_return not_verified(a.name, g.sent.common_name, *answer, of_pair_in_use(current, in_use), topic,
                           interactive);
}

// ---- publish and deploy

// Everything is complete on disk before one rename puts it in use; repairs do the same.
io::task<void> executor::publish(const policy::action& a)
{
    const auto exposure = *state_.exposure(a.name.exposure);
    const auto want = *state_.wanted(a.name);
    auto& outside = state_.outside();
    const auto before = state_.user(held_, a.name);
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto g = *found;
    const bool repair = before.current == g.id;
    const bool rotation = !repair && !before.current.empty() && a.why != policy::reason::rolled_back;

    auto published =
        co_await io::offload(pool(), [&]() -> policy::result<std::vector<policy::published_file>> {
            auto key = outside.store.read_key(a.name, g.id);
            if (!key) return key.error();
            auto chain = outside.store.read_certificate(a.name, g.id);
            if (!chain) return chain.error();
            return outside.publisher.publish(
                {.name = a.name,
                 .output = want.output,
                 .generation = g.id,
                 .key_pem = std::move(*key),
                 .fullchain_pem = *chain,
                 .broker = exposure.broker,
                 .broker_ca_file = exposure.broker_ca_file,
                 .consumer_group = want.consumer_group,
                 .keep = repair ? before.previous : before.current,
                 .known = repair ? before.files : std::vector<policy::published_file>()});
        });
    if (!published) co_return published.error();
    io::crash_point("publish.switched");

    std::vector<policy::user_event> events;
    if (a.why == policy::reason::rolled_back) events.push_back(policy::event::rolled_back{g.id});
    events.push_back(policy::event::published{.generation = g.id,
                                              .files = std::move(*published),
                                              .rendered = disk::rendering_of(exposure, want),
                                              .hooks = !want.hooks.empty(),
                                              .why = a.sentence});
    const auto& event = repair     ? io::events::repaired
                        : rotation ? io::events::rotated
                                   : io::events::published;
    io::log(io::severity::info, event, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": " +
                (repair ? "published again: " + a.sentence
                        : "certificate in use, valid until " + policy::format_utc(g.certificate->expiry())));
    if (const auto warning = policy::lead_warning(*g.certificate, want.rotation.renew_before);
        warning && !repair)
        io::log(io::severity::warning, io::events::noted, {a.name.exposure, a.name.user, g.id},
                a.name.text() + ": " + *warning);
    if (auto saved = co_await state_.record(held_, a.name, std::move(events), origin_); !saved)
        co_return saved.error();
    co_return co_await leave_old_directory(a, want.output.directory);
}

// The record keeps the old directory until none of our files are left there.
io::task<void> executor::leave_old_directory(const policy::action& a, std::string directory)
{
    const auto user = state_.user(held_, a.name);
    if (user.entry.directory == directory) co_return policy::result<void>();
    if (!user.entry.directory.empty()) {
        std::vector<std::string> ids;
        for (const auto& known : user.generations)
            ids.push_back(known.id);
        auto left = co_await io::offload(
            pool(), [&] { return state_.outside().publisher.unpublish(user.entry.directory, ids); });
        if (!left) co_return left.error();
    }
    policy::user_event moved = policy::event::moved{directory};
    co_return co_await record(a, std::move(moved));
}

// ---- hooks

namespace {

constexpr std::size_t parallel_hooks = 64;

struct hook_job {
    policy::action step;
    std::optional<state::running_hooks> running;  // none: already running elsewhere
    deploy::hook_run run;
    std::optional<policy::instant> published_at;
};

// The generation that the step is about; null when another certificate is in use.
const policy::generation* in_use(const state& s, const policy::action& step)
{
    const auto user = s.stored().users.find(step.name);
    if (user == s.stored().users.end() || user->second.current != step.generation) return nullptr;
    return user->second.find(step.generation);
}

// nullopt when the hooks no longer apply: user not configured, or another certificate in use.
std::optional<hook_job> job_of(state& s, const state::hold& held, policy::action step)
{
    const auto* exposure = s.exposure(step.name.exposure);
    const auto* want = s.wanted(step.name);
    const auto* g = in_use(s, step);
    if (!exposure || !want || !g || !g->certificate) return std::nullopt;
    deploy::hook_run run{.name = step.name,
                         .hooks = want->hooks,
                         .directory = want->output.directory,
                         .generation = g->id,
                         .not_after = g->certificate->not_after,
                         .topic = exposure->topic,
                         .consumer_group = want->consumer_group,
                         .reason = s.stored().users.at(step.name).deploy_reason};
    return hook_job{.step = std::move(step),
                    .running = s.begin_hooks(held, run.name),
                    .run = std::move(run),
                    .published_at = g->published_at};
}

policy::failure superseded(const policy::user_name& name)
{
    return {.code = policy::errc::stopping,
            .context = name.text() +
                       ": another certificate was put in use while the previous one's hooks were running",
            .kind = policy::retry::later};
}

// A certificate that came into use meanwhile has hooks of its own: this outcome does not count for it.
io::task<void> record_end(state& s, const state::hold& held, const hook_job& job, policy::result<void> ran,
                          policy::origin from)
{
    const auto& name = job.step.name;
    const auto* g = in_use(s, job.step);
    if (!g || g->published_at != job.published_at) co_return superseded(name);
    if (!ran && ran.error().code == policy::errc::hook_failed)
        co_return with_way_back(ran.error(), s.stored().users.at(name));
    if (!ran) co_return ran;
    const bool configured = !job.run.hooks.empty();
    if (configured)
        io::log(io::severity::info, io::events::deployed, {name.exposure, name.user, g->id},
                name.text() + ": hooks succeeded");
    policy::user_event deployed = policy::event::deployed{g->id, configured};
    co_return co_await s.record(held, name, std::move(deployed), from);
}

io::awaitable<void> run_job(state& s, hook_job& job, policy::origin from, const hooks_listener& ended)
{
    if (!job.running) co_return co_await s.hooks_end(job.step.name);
    auto ran = co_await s.outside().hooks.run(job.run);
    if (ran) io::crash_point("deploy.hooks-passed");
    const auto held = co_await s.take(job.step.name.exposure);
    const auto outcome = co_await record_end(s, held, job, std::move(ran), std::move(from));
    co_await ended(held, job.step, outcome);
    job.running.reset();  // before the lock is released: its next holder sees that they ended
}

}  // namespace

io::awaitable<void> run_hooks(state& s, state::hold& held, std::vector<policy::action> steps,
                              policy::origin from, hooks_listener ended)
{
    std::vector<hook_job> jobs;
    for (auto& step : steps)
        if (auto job = job_of(s, held, std::move(step))) jobs.push_back(std::move(*job));
    if (jobs.empty()) co_return;
    auto all = io::for_each_parallel(parallel_hooks, jobs.size(), [&](std::size_t i) -> io::awaitable<void> {
        co_await run_job(s, jobs[i], from, ended);
    });
    co_await held.without(std::move(all));
}

}  // namespace reconcile
