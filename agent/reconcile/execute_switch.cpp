#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/reconcile/execute.hpp"
#include "policy/dates.hpp"

namespace reconcile {
namespace {

// A hook that fails right after a switch may mean that the consumer cannot use the new certificate.
policy::failure with_way_back(policy::failure failed, const policy::stored_user& user)
{
    const auto* before = user.find(user.previous);
    if (before && before->certificate && !before->missing_since && user.held.empty())
        failed.context +=
            "; the certificate before comes back with `exposure-agent rollback " + user.name.text() + "`";
    return failed;
}

}  // namespace

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
            pool(), [&] { return world_.outside().publisher.unpublish(user.entry.directory, ids); });
        if (!left) co_return left.error();
    }
    world_.user(name).entry.directory = directory;
    co_return co_await world_.save(name);
}

io::task<void> executor::deploy(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    const auto want = *world_.wanted(a.name);
    const auto g = generation(a);
    const deploy::hook_run run{.name = a.name,
                               .hooks = want.hooks,
                               .directory = want.output.directory,
                               .generation = g.id,
                               .not_after = g.certificate->not_after,
                               .topic = exposure.topic,
                               .consumer_group = want.consumer_group,
                               .reason = world_.user(a.name).deploy_reason};
    auto passed = co_await world_.outside().hooks.run(run);
    if (!passed && passed.error().code == policy::errc::hook_failed)
        co_return with_way_back(passed.error(), world_.user(a.name));
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
