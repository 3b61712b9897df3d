#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/reconcile/execute.hpp"
#include "agent/reconcile/look.hpp"

namespace reconcile {

// At most one instance per tenant: the platform is the judge of a second request, a list shows who won.
io::task<void> executor::onboard(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    auto& record = world_.exposure_record(exposure);
    record.onboarding_since = now();
    if (auto saved = co_await world_.save_exposure(exposure.name); !saved) co_return saved.error();

    const auto created =
        co_await world_.outside().api.create_instance(address_of(exposure), group_for(exposure));
    if (created) {
        io::log(io::severity::info, io::events::onboarded, {exposure.name},
                "tenant " + exposure.tenant + " onboarded");
        co_return co_await remember_fields(exposure.name, created->fields);
    }
    if (policy::never_sent(created.error())) {
        world_.exposure_record(exposure).onboarding_since.reset();
        if (auto saved = co_await world_.save_exposure(exposure.name); !saved) co_return saved.error();
    }
    co_return created.error();
}

io::task<void> executor::remember_instance(const policy::action& a)
{
    auto& record = world_.exposure_record(*world_.exposure(a.name.exposure));
    record.where.instance_id = a.remote_id;
    record.onboarding_since.reset();
    co_return co_await world_.save_exposure(a.name.exposure);
}

// --accept-loss: whoever lived in the vanished instance is lost with it. The users first, so that a kill in
// between leaves the instance known, and the loss to be accepted again.
io::task<void> executor::forget_instance(const policy::action& a)
{
    for (auto& [name, user] : world_.stored().users) {
        bool changed = false;
        for (auto& g : user.generations)
            if (name.exposure == a.name.exposure && g.where.instance_id == a.remote_id && !g.missing_since) {
                g.missing_since = now();
                changed = true;
            }
        if (!changed) continue;
        if (auto saved = co_await world_.save(name); !saved) co_return saved.error();
    }
    world_.exposure_record(*world_.exposure(a.name.exposure)).where.instance_id.clear();
    co_return co_await world_.save_exposure(a.name.exposure);
}

}  // namespace reconcile
