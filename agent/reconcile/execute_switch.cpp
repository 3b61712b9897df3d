#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/reconcile/execute.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

namespace reconcile {
namespace {

using deploy::proof_verdict;

deploy::proof_request proof_of(const policy::desired_exposure& exposure, const policy::generation& g,
                               const std::string& user, const std::filesystem::path& directory)
{
    return {.exposure = exposure.name,
            .user = user,
            .broker = exposure.broker,
            .broker_ca_file = exposure.broker_ca_file,
            .topic = exposure.topic,
            .consumer_group = g.sent.consumer_group,
            .key_file = directory / "key.pem",
            .certificate_file = directory / "certificate.pem"};
}

// A refusal may only mean that access is still being granted: after the patience it needs a person.
policy::failure not_proven(const policy::user_name& name, const deploy::proof_answer& answer,
                           bool pair_in_use_works, bool patient)
{
    const bool unreachable = answer.verdict == proof_verdict::unreachable;
    std::string sentence = name.text() + ": the broker " +
                           (unreachable ? "could not be asked whether it accepts the new certificate"
                                        : "does not accept the new certificate") +
                           " (" + answer.evidence + "); the certificate in use stays";
    if (!unreachable && pair_in_use_works) sentence += ", which the broker accepts";
    if (!unreachable && !patient)
        sentence += "; ask the platform's operator why this user has no access, then say `rotate`";
    return {.code = unreachable ? policy::errc::probe_unreachable : policy::errc::probe_refused,
            .context = sentence,
            .kind = unreachable || patient ? policy::retry::later : policy::retry::after_change};
}

}  // namespace

// Tells "this pair is refused" from "the broker is down" by trying the pair in use as well.
io::task<void> executor::prove(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    auto& outside = world_.outside();
    const auto g = generation(a);
    auto answer = co_await outside.proof.ask(
        proof_of(exposure, g, a.name.user, outside.store.generation_directory(a.name, g.id)));
    if (!answer) co_return answer.error();

    const auto* current = world_.user(a.name).find(world_.user(a.name).current);
    const bool in_use_expired = current && current->certificate && current->certificate->expiry() <= now();
    if (answer->verdict == proof_verdict::accepted ||
        (answer->verdict == proof_verdict::unreachable && in_use_expired)) {
        auto& record = generation(a);
        record.proven =
            answer->verdict == proof_verdict::accepted ? policy::proof::broker : policy::proof::local;
        record.proven_at = now();
        world_.user(a.name).failure.reset();
        co_return co_await world_.save(a.name);
    }

    bool in_use_works = false;
    if (current && answer->verdict != proof_verdict::unreachable) {
        const auto directory = outside.store.generation_directory(a.name, current->id);
        const auto in_use = co_await outside.proof.ask(proof_of(exposure, *current, a.name.user, directory));
        in_use_works = in_use && in_use->verdict == proof_verdict::accepted;
    }
    const bool patient = g.collected_at && now() - *g.collected_at < policy::limits::probe_patience;
    auto why = not_proven(a.name, *answer, in_use_works, patient);
    io::log(io::severity::warning, io::events::proof_failed, {a.name.exposure, a.name.user, a.generation},
            why.context);
    co_return why;
}

// Complete on disk before one rename puts it in use; repairs go the same way.
io::task<void> executor::publish(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    const auto want = *world_.wanted(a.name);
    auto& outside = world_.outside();
    const auto before = world_.user(a.name);
    const auto g = generation(a);
    const bool repair = before.current == g.id;

    auto published =
        co_await io::offload(pool(), [&]() -> policy::result<std::vector<policy::published_file>> {
            auto key = outside.store.read_key(a.name, g.id);
            if (!key) return key.error();
            auto chain = outside.store.read_certificate(a.name, g.id);
            if (!chain) return chain.error();
            return outside.publisher.publish({.name = a.name,
                                              .output = want.output,
                                              .generation = g.id,
                                              .key_pem = std::move(*key),
                                              .fullchain_pem = *chain,
                                              .broker = exposure.broker,
                                              .broker_ca_file = exposure.broker_ca_file,
                                              .consumer_group = want.consumer_group,
                                              .keep = repair ? before.previous : before.current});
        });
    if (!published) co_return published.error();
    io::crash_point("publish.switched");

    auto& user = world_.user(a.name);
    user.files = std::move(*published);
    user.rendered = disk::rendering_of(exposure, want);
    user.output = policy::output_condition::sound;
    if (!repair || (user.failure && policy::is_local(user.failure->code))) user.failure.reset();
    if (!repair) {
        user.previous = before.current;
        user.current = g.id;
        user.deploy_failure.reset();
        auto& record = generation(a);
        record.published_at = now();
        record.deployed_at = want.hooks.empty() ? std::optional(now()) : std::nullopt;
    }
    io::log(io::severity::info, repair ? io::events::repaired : io::events::published,
            {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": " +
                (repair ? "published again: " + a.sentence
                        : "certificate in use, valid until " + policy::format_utc(g.certificate->expiry())));
    if (auto saved = co_await world_.save(a.name); !saved) co_return saved.error();
    co_return co_await leave_old_directory(a.name, want.output.directory);
}

// The record names the old directory until nothing of ours is left there.
io::task<void> executor::leave_old_directory(policy::user_name name, std::string directory)
{
    const auto user = world_.user(name);
    if (user.entry.directory == directory) co_return policy::result<void>();
    if (!user.entry.directory.empty()) {
        std::vector<std::string> ids;
        for (const auto& known : user.generations)
            ids.push_back(known.id);
        auto left = co_await io::offload(
            pool(), [&] { return world_.outside().publisher.withdraw(user.entry.directory, ids); });
        if (!left) co_return left.error();
    }
    world_.user(name).entry.directory = directory;
    co_return co_await world_.save(name);
}

io::task<void> executor::deploy(const policy::action& a)
{
    const auto want = *world_.wanted(a.name);
    const auto g = generation(a);
    const deploy::hook_run run{.name = a.name,
                               .hooks = want.hooks,
                               .directory = want.output.directory,
                               .generation = g.id,
                               .not_after = g.certificate->not_after,
                               .reason = world_.user(a.name).deploy_reason};
    auto passed = co_await world_.outside().hooks.run(run);
    if (!passed) co_return passed.error();
    io::crash_point("deploy.hooks-passed");

    auto& user = world_.user(a.name);
    generation(a).deployed_at = now();
    user.deploy_failure.reset();
    io::log(io::severity::info, io::events::deployed, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": hooks passed");
    co_return co_await world_.save(a.name);
}

}  // namespace reconcile
