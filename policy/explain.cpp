#include "policy/explain.hpp"

#include "policy/checks.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"

namespace policy {
namespace {

using fact_list = std::vector<std::pair<std::string, std::string>>;

std::string time_text(const std::optional<instant>& at)
{
    return at ? format_utc(*at) : "not yet";
}

void add_generation(fact_list& list, const std::string& lead, const facts& f, const generation& g)
{
    list.emplace_back(lead, g.id);
    list.emplace_back(lead + "_common_name", g.sent.common_name);
    list.emplace_back(lead + "_remote_id", g.remote_id.empty() ? "unknown" : g.remote_id);
    list.emplace_back(lead + "_submitted", time_text(g.submitted_at));
    if (g.certificate) list.emplace_back(lead + "_expires", format_utc(g.certificate->expiry()));
    list.emplace_back(lead + "_published", time_text(g.published_at));
    list.emplace_back(lead + "_deployed", time_text(g.deployed_at));
    if (const auto* user = listed(f, g)) list.emplace_back(lead + "_on_platform", user->status_text);
    if (g.missing_since) list.emplace_back(lead + "_lost", format_utc(*g.missing_since));
    if (!g.quarantine.empty()) list.emplace_back(lead + "_quarantine", g.quarantine);
}

fact_list facts_of(const facts& f, const std::optional<failure>& failed)
{
    fact_list list;
    list.emplace_back("now", format_utc(f.now));
    list.emplace_back("owner", f.owner);
    list.emplace_back("in_file", f.want ? "yes" : "no");
    list.emplace_back("platform_seen", f.seen ? format_utc(f.seen->looked_at) : "no");
    if (failed) list.emplace_back("platform_error", failed->context);
    list.emplace_back("instance", f.instance_id.empty() ? "unknown" : f.instance_id);
    if (f.current) add_generation(list, "current", f, *f.current);
    if (f.pending) add_generation(list, "pending", f, *f.pending);
    if (!f.have) return list;
    list.emplace_back("generations", std::to_string(f.have->generations.size()));
    list.emplace_back("made_within_a_day", std::to_string(f.have->creations.size()));
    if (const auto due = due_at(f)) list.emplace_back("rotate_at", format_utc(*due));
    if (f.have->failure) list.emplace_back("last_failure", f.have->failure->sentence);
    if (f.have->deploy_failure) list.emplace_back("last_hook_failure", f.have->deploy_failure->sentence);
    if (f.have->unwanted_since) list.emplace_back("not_in_file_since", format_utc(*f.have->unwanted_since));
    return list;
}

std::vector<std::string> changers_of(reason why)
{
    switch (why) {
        case reason::healthy:
            return {"rotate_at passes",
                    "key, consumer_group, contact or description change in the configuration",
                    "the user is deleted on the platform", "exposure-agent rotate"};
        case reason::budget_spent:
        case reason::quarantined:
            return {"exposure-agent rotate, once the cause is known"};
        case reason::paused:
            return {"rotation.paused: false", "exposure-agent rotate"};
        case reason::users_vanished:
        case reason::instance_vanished:
            return {"what vanished comes back", "exposure-agent reconcile --accept-loss"};
        case reason::owner_changed:
            return {"the old owner in the configuration", "exposure-agent reconcile --accept-loss"};
        case reason::cloned:
            return {"exposure-agent takeover, once the other machine is gone"};
        case reason::clock_wrong:
            return {"the right time on this host"};
        case reason::deletes_exceeded:
            return {"the users return to the configuration", "a larger reconcile.max_deletes"};
        case reason::backing_off:
            return {"the time of the next attempt", "a change of its entry in the configuration",
                    "exposure-agent reconcile"};
        case reason::waiting_ready:
        case reason::waiting_instance:
        case reason::waiting_settle:
        case reason::instance_failed:
            return {"the platform's next answer"};
        case reason::not_in_file:
            return {"its entry returns to the configuration before retire_after has passed"};
        case reason::key_type_changed:
        case reason::group_changed:
        case reason::contact_changed:
        case reason::description_changed:
        case reason::name_changed:
            return {"the old value in the configuration, before the new certificate is in use"};
        case reason::unreachable:
            return {"the exposure answers"};
        case reason::instance_missing:
            return {"create_instance: true", "an instance made in the portal"};
        default:
            return {};
    }
}

}  // namespace

explanation explain(const desired_state& desired, const observed_state& observed, const stored_state& stored,
                    const plan_result& plan, const user_name& name, instant now)
{
    explanation e{.name = name};
    const auto seen = observed.exposures.find(name.exposure);
    const auto failed = seen == observed.exposures.end() ? std::nullopt : seen->second.error;
    const auto wanted = stored.leaving ? leaving_state(desired) : desired;
    e.facts = facts_of(join(user_index(wanted, observed, stored), name, now, {}), failed);
    for (const auto& view : plan.users) {
        if (view.name != name) continue;
        e.finding = view.finding;
        e.sentence = view.sentence;
        e.blocked = view.blocked;
        e.next = view.next;
        e.next_at = view.next_at;
    }
    e.would_change = changers_of(e.finding);
    const bool refused = e.finding == reason::unreachable && failed && failed->code == errc::forbidden;
    if (refused)
        e.would_change = {
            "the service user gets the role on the platform, and logs in again: "
            "exposure-agent login"};
    return e;
}

}  // namespace policy
