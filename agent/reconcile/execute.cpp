#include "agent/reconcile/execute.hpp"

#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"

#include <algorithm>

namespace reconcile {

namespace {

// The platform is asked to change something.
bool sends_change(policy::action_kind kind)
{
    using policy::action_kind;
    switch (kind) {
        case action_kind::onboard:
        case action_kind::issue:
        case action_kind::submit:
        case action_kind::delete_before_replace:
        case action_kind::retire:
        case action_kind::retire_surplus:
        case action_kind::remove:
            return true;
        default:
            return false;
    }
}

}  // namespace

// Nothing is sent whose answer the disk could not keep.
io::task<void> executor::perform(policy::action a)
{
    using policy::action_kind;
    if (sends_change(a.kind)) {
        auto room = co_await world_.outside().store.make_room();
        const auto whose = a.name.user.empty() ? a.name.exposure : a.name.text();
        if (!room) co_return policy::with_context(whose + ": nothing is sent", room.error());
    }
    switch (a.kind) {
        case action_kind::onboard:
            co_return co_await onboard(a);
        case action_kind::remember_instance:
            co_return co_await remember_instance(a);
        case action_kind::forget_instance:
            co_return co_await forget_instance(a);
        case action_kind::issue:
            co_return co_await issue(a);
        case action_kind::submit:
            co_return co_await submit(a.name, a.generation);
        case action_kind::adopt:
            co_return co_await adopt(a);
        case action_kind::collect:
            co_return co_await collect(a);
        case action_kind::prove:
            co_return co_await prove(a);
        case action_kind::publish:
            co_return co_await publish(a);
        case action_kind::deploy:
            co_return co_await deploy(a);
        case action_kind::delete_before_replace:
            co_return co_await delete_before_replace(a);
        case action_kind::retire:
        case action_kind::retire_surplus:
            co_return co_await retire(a);
        case action_kind::remove:
            co_return co_await remove(a);
        case action_kind::forget:
            co_return co_await forget(a);
        case action_kind::discard:
        case action_kind::abandon:
        case action_kind::mark_missing:
        case action_kind::mark_unwanted:
        case action_kind::mark_wanted:
            co_return co_await note(a);
    }
    co_return policy::failure{.context = "unknown action"};
}

// What is only written down: facts that the look found, and when they were found.
io::task<void> executor::note(const policy::action& a)
{
    using policy::action_kind;
    auto& user = world_.user(a.name);
    switch (a.kind) {
        case action_kind::abandon:
            generation(a).abandoned = true;
            break;
        case action_kind::mark_missing:
            generation(a).missing_since = now();
            break;
        case action_kind::mark_unwanted:
            user.unwanted_since = now();
            break;
        case action_kind::mark_wanted:
            user.unwanted_since.reset();
            break;
        case action_kind::discard:
            std::erase_if(user.generations,
                          [&](const policy::generation& g) { return g.id == a.generation; });
            break;
        default:
            break;
    }
    io::log(io::severity::info, io::events::noted, {a.name.exposure, a.name.user, a.generation}, a.sentence);
    co_return co_await world_.save(a.name);
}

platform::group_choice executor::group_for(const policy::desired_exposure& exposure)
{
    const auto& observed = world_.observed().exposures;
    const auto seen = observed.find(exposure.name);
    const auto* instance =
        seen != observed.end() && !seen->second.instances.empty() ? &seen->second.instances.front() : nullptr;
    platform::group_choice choice{.group = {.id = "", .name = exposure.tenant},
                                  .fields = exposure.group_fields};
    if (exposure.group)
        choice.group = *exposure.group;
    else if (instance && instance->group)
        choice.group = *instance->group;
    if (choice.fields == policy::group_fields::auto_ && instance) choice.fields = instance->fields;
    if (choice.fields == policy::group_fields::auto_)
        choice.fields = world_.exposure_record(exposure).group_fields;
    return choice;
}

// The names that the platform has accepted are the first ones to be sent from now on.
io::task<void> executor::remember_fields(std::string exposure, policy::group_fields fields)
{
    auto& record = world_.exposure_record(*world_.exposure(exposure));
    if (record.group_fields == fields) co_return policy::result<void>();
    record.group_fields = fields;
    co_return co_await world_.save_exposure(exposure);
}

}  // namespace reconcile
