#include "tests/policy/model/history.hpp"

#include <algorithm>

// I9: once the faults have stopped and operators have resolved what was blocked, everything converges.

namespace model {
namespace {

// The marker was changed or truncated so far that the owner cannot be determined.
bool is_nobodys(const cloud_user& u)
{
    return u.remarked || u.shown.description.find("[exposure-agent ") == std::string::npos;
}

}  // namespace

void history::clear_sky()
{
    w_.say("---- the sky clears");
    w_.sky = {};
    w_.clock_ahead = 0s;
    w_.now += w_.desired.reconcile.settle;  // a clock step within the settle time would shorten it
    w_.settle_time();
    w_.files.cloned = false;
    w_.desired.reconcile.max_deletes = 10;
    for (auto& e : w_.desired.exposures) {
        auto& there = w_.instances[place_of(e)];
        if (there.size() > 1) there.resize(1);
        for (auto& u : e.users)
            u.rotation.paused = false;
    }
    agent_.start();
    wake_ = w_.agent_now();
}

// Does what an operator would do after reading `status`.
void history::help()
{
    bool loss = false;
    bool reconcile = false;
    for (const auto& view : agent_.last_plan().exposures)
        loss |= view.why == policy::reason::instance_vanished || view.why == policy::reason::users_vanished;
    for (const auto& [name, record] : agent_.memory().users) {
        if (record.failure && record.failure->kind != policy::retry::later) reconcile = true;
        const std::string why = record.blocked ? record.blocked->reason : "";
        if (why == "budget_spent" || why == "quarantined") survive([&] { agent_.rotate(name, false); });
        // the operator deletes users whose marker somebody changed
        const auto refused = [](const auto& memory) {
            return memory && memory->code == policy::errc::refused;
        };
        if (why == "strategy_replace" || refused(record.failure) || refused(record.clear_failure))
            std::erase_if(w_.users, [&](const cloud_user& u) { return u.name == name && is_nobodys(u); });
    }
    if (reconcile) agent_.forget_backoffs();
    if (loss) pass({.accept_loss = true});
}

std::string history::unsettled_user(const policy::desired_exposure& e, const policy::desired_user& want) const
{
    const user_name name{e.name, want.name};
    const auto found = w_.files.records.find(name);
    if (found == w_.files.records.end()) return "has no record";
    const auto& record = found->second;
    const auto* current = record.find(record.current);
    if (!current) return "has no certificate";
    if (record.blocked) return "is blocked: " + record.blocked->sentence;
    if (record.failure) return "remembers a failure: " + record.failure->sentence;
    if (record.deploy_failure) return "remembers a failure of its hooks";
    if (record.clear_failure) return "remembers a failure of a retirement: " + record.clear_failure->sentence;
    if (!current->deployed_at) return "has hooks pending";
    if (current->missing_since) return "uses a certificate whose user is lost";
    if (record.rotate_asked_at) return "was asked to rotate";
    const auto link = w_.files.links.find(want.output.directory);
    if (link == w_.files.links.end() || link->second.damaged || link->second.generation != current->id)
        return "is not published in " + want.output.directory;
    for (const auto& g : record.generations)
        if (&g != current && std::ranges::none_of(w_.users, [&](const cloud_user& u) {
                return u.shown.id == g.remote_id && is_nobodys(u);
            }))
            return "keeps generation " + g.id;
    int ours = 0;
    for (const auto& u : w_.users) {
        if (u.key.empty() || u.name != name) continue;
        if (u.shown.id == current->remote_id) {
            if (u.shown.status != policy::remote_status::ready) return "uses a user that is not READY";
            ++ours;
        } else if (!u.keyless && w_.cut_descriptions_at == 0) {
            return "has a user left over: " + u.shown.id;
        }
    }
    // an operator rolled back to a certificate in another tenant, which is no longer observed
    const bool elsewhere = place_of(current->where) != place_of(e);
    if (elsewhere && record.held != current->id) return "is in another tenant";
    return ours == 1 || elsewhere ? "" : "uses a user that is not there";
}

std::string history::unsettled_leftovers() const
{
    std::set<user_name> named;
    for (const auto& e : w_.desired.exposures)
        for (const auto& u : e.users)
            named.insert({e.name, u.name});
    if (!w_.desired.reconcile.prune) return "";
    for (const auto& [name, record] : w_.files.records)
        if (!named.contains(name)) return name.text() + " is not in the file and still here";
    for (const auto& u : w_.users)
        if (!u.key.empty() && !named.contains(u.name) && !u.keyless && w_.cut_descriptions_at == 0)
            return u.name.text() + " is not in the file and still on the platform: " + u.shown.id;
    return "";
}

std::string history::unsettled() const
{
    for (const auto& e : w_.desired.exposures)
        for (const auto& u : e.users) {
            const user_name name{e.name, u.name};
            if (w_.cursed.contains(name)) continue;
            if (const auto why = unsettled_user(e, u); !why.empty()) return name.text() + " " + why;
        }
    return unsettled_leftovers();
}

// Prints the state of every user at the end of a failed history.
void history::show_all()
{
    for (const auto& [name, record] : agent_.memory().users) {
        w_.say(name.text() + ": current " + record.current + (record.retire_now ? ", retire now" : "") +
               (record.held.empty() ? "" : ", held " + record.held));
        for (const auto& g : record.generations)
            w_.say("  generation " + g.id + " " + g.remote_id + (g.submitted_at ? " submitted" : "") +
                   (g.published_at ? " published" : "") + (g.deployed_at ? " deployed" : "") +
                   (g.missing_since ? " lost" : "") + (g.abandoned ? " abandoned" : "") +
                   (g.quarantine.empty() ? "" : " quarantined") + (g.key_on_disk ? "" : " keyless"));
    }
    for (const auto& u : w_.users)
        w_.say("  user " + u.shown.id + " of " + u.name.text() + " " + u.shown.status_text + " in " +
               u.place + " " + u.instance + ": " + u.shown.description + (u.keyless ? " (exempt)" : "") +
               (u.key.empty() ? " (stranger)" : ""));
    for (const auto& view : agent_.last_plan().users)
        w_.say("  plan: " + view.name.text() + " " + policy::word_of(view.why) + " " + view.sentence);
}

void history::converge(const char* when)
{
    constexpr int attempts = 600;
    std::string why;
    duration pace = 2s;
    for (int i = 0; i < attempts; ++i) {
        ++w_.steps;
        pass();
        why = unsettled();
        if (why.empty()) break;
        help();
        pace = std::min<duration>(pace * 3 / 2, 6h);
        const auto sleep = agent_.waits() ? pace : std::min<duration>(wake_ - w_.agent_now(), 6h);
        w_.now += std::max<duration>(sleep, 1s);
        w_.settle_time();
    }
    if (!why.empty()) show_all();
    if (!why.empty()) laws_.broken(std::string("I9: ") + when + ": " + why);

    const auto posts = w_.posts;
    const auto deletions = w_.deletions;
    pass();
    if (w_.cursed.empty() && (w_.posts != posts || w_.deletions != deletions))
        laws_.broken("I9: a pass in which nothing is due sends something");
}

}  // namespace model
