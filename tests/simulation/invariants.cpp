#include "tests/simulation/history_impl.hpp"

#include "agent/disk/state_database.hpp"
#include "crypto/certificate.hpp"
#include "crypto/key.hpp"

#include <algorithm>

// What must be true, whatever happens.

namespace simulation {

using namespace std::chrono_literals;

namespace {

constexpr nanoseconds longest_silence = 75min;   // without a request; after a 403 the agent waits for an hour
constexpr nanoseconds longest_untried = 2min;      // until the first request after an edit
constexpr nanoseconds inaccuracy = 2min;     // of clocks in retire_after
const std::map<std::string, nanoseconds> retire_afters = {{"0s", 0s}, {"1h", 1h}, {"24h", 24h}, {"3d", 72h}};

// Parsing keys and certificates dominates the running time, so the results are cached.
const std::string& known_key(const std::string& pem, std::string (*read)(const std::string&))
{
    static std::map<std::string, std::string> known;
    const auto found = known.find(pem);
    return found != known.end() ? found->second : known.emplace(pem, read(pem)).first->second;
}

std::string read_private_key(const std::string& pem)
{
    const auto key = crypto::private_key::from_pem(pem);
    return key ? key->fingerprint() : "";
}

std::string read_key_of_certificate(const std::string& pem)
{
    const auto chain = crypto::read_chain(pem);
    return chain ? chain->front().facts.public_key_fingerprint : "";
}

}  // namespace

void history::broken(const std::string& law, const std::string& what)
{
    say("BROKEN " + law + ": " + what);
    if (outcome_.broken.size() < 5)
        outcome_.broken.push_back(law + ": " + what + " (step " + std::to_string(machine_.steps()) +
                                  ", life " + std::to_string(machine_.life()) + ")");
}

std::string history::in_use(const std::string& slot) const
{
    return known_key(text_of(directory_of(slot) / "current" / "key.pem"), read_private_key);
}

void history::look_at_outputs()
{
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(state_dir() / "live" / "logs", none))
        look_at_output("logs/" + entry.path().filename().native());
}

// I1: `current` points to a complete, matching pair, or does not exist.
void history::look_at_output(const std::string& slot)
{
    std::error_code none;
    const auto link = fs::read_symlink(directory_of(slot) / "current", none);
    if (none) return;
    const auto in = directory_of(slot) / link;
    const auto key = known_key(text_of(in / "key.pem"), read_private_key);
    const auto of_certificate = known_key(text_of(in / "cert.pem"), read_key_of_certificate);
    if (key.empty() || of_certificate.empty())
        return broken("I1", "the pair of " + slot + " is not complete in " + link.native());
    if (key != of_certificate) broken("I1", "the pair of " + slot + " does not match in " + link.native());
    auto& known = certificate_in_use_[slot];
    auto certificate = text_of(in / "cert.pem");
    if (known == certificate) return;
    if (!known.empty()) replaced_at_.try_emplace(known, machine_.true_time());
    known = std::move(certificate);
    if (!machine_.alive()) return;
    if (platform_.deleted.contains(known))
        broken("I1", "what comes into use for " + slot + " was deleted before");
    for (const auto& [id, u] : platform_.users)
        if (u.certificate == known && u.not_before > std::max(machine_.true_time(), machine_.wall()) + 1s)
            broken("S12", "what comes into use for " + slot + " is not valid yet");
}

void history::note_retire_after(const wanted_user& u)
{
    retire_after_[u.slot()].emplace_back(machine_.true_time(), retire_afters.at(u.retire_after));
}

// I4: what was in use stays for retire_after, which is the smallest of those configured since it was
// replaced.
bool history::may_retire(const platform_user& u)
{
    const auto removed = removed_at_.find(u.slot);
    const bool leaves = removed != removed_at_.end() && u.certificate == certificate_in_use_[u.slot];
    const auto replaced = leaves ? removed : replaced_at_.find(u.certificate);
    if (replaced == replaced_at_.end()) return true;
    if (wanted_gone_.contains(u.slot) && (!leaves || machine_.true_time() - removed->second < 5min))
        return true;
    if (const auto asked = retire_now_at_.find(u.slot);
        asked != retire_now_at_.end() && u.created_at <= asked->second + 24h)
        return true;
    if (machine_.clock_is_wrong() || clock_changed_at_ > replaced->second || known_missing_.contains(u.id)) {
        ++outcome_.counted["exempt: retire_after by a clock that was set"];
        return true;
    }
    const auto& values = retire_after_[u.slot];
    auto least = nanoseconds::max();
    for (auto each = values.begin(); each != values.end(); ++each)
        if (std::next(each) == values.end() || std::next(each)->first + longest_one_shot > replaced->second)
            least = std::min(least, each->second);
    ++outcome_.counted["users retired after retire_after"];
    return machine_.true_time() - replaced->second + inaccuracy >= least;
}

// S12: the newest certificate cannot be used, and its user is kept until a person has looked at it.
bool history::waits_for_person(const platform_user& u) const
{
    const auto state = disk::state_database(disk::paths(state_dir())).load();
    if (!state) return false;
    return std::ranges::any_of(state->users, [&](const auto& each) {
        const auto& all = each.second.generations;
        return !all.empty() && !all.back().quarantine.empty() && all.back().remote_id == u.id;
    });
}

// I5: at most one generation of a user is under way. What the agent keeps in memory is bounded.
void history::judge_records(const policy::stored_state& stored)
{
    for (const auto& [name, user] : stored.users) {
        const auto under_way = std::ranges::count_if(user.generations, [&](const auto& g) {
            return g.id != user.current && !g.published_at && !policy::is_dead(g);
        });
        if (under_way > 1)
            broken("I5", name.text() + " has " + std::to_string(under_way) + " unfinished generations");
        most("generations of a user", user.generations.size());
        most("creations of a user", user.creations.size());
        for (const auto& g : user.generations)
            most("users that are not ours", g.not_ours.size());
    }
    most("users", stored.users.size());
    judge_users(stored);
}

// A plan wakes up in time, says why it waits (I10), and does not remove more than is configured.
void history::judge_plan(const policy::desired_state& desired, policy::instant now,
                         const policy::plan_result& plan)
{
    if (plan.wake_at <= now || plan.wake_at > now + desired.reconcile.interval)
        broken("wake-up", "a plan wakes up in " + std::to_string((plan.wake_at - now) / 1s) + " s");
    for (const auto& view : plan.users)
        if (view.blocked && (view.sentence.empty() || view.why == policy::reason::healthy))
            broken("I10", view.name.text() + " is blocked without a sentence");
    const auto removals =
        std::ranges::count(plan.actions, policy::action_kind::remove, &policy::action::kind);
    if (removals > desired.reconcile.max_deletes) broken("I4", "a plan removes more users than max_deletes");
}

// I2: a key stays until its user is gone. S10: a user that exists does not count as deleted.
void history::judge_users(const policy::stored_state& stored)
{
    std::set<std::string> keys;
    for (const auto& [name, user] : stored.users)
        for (const auto& g : user.generations) {
            if (g.key_on_disk) keys.insert(g.fingerprint);
            if (!g.missing_since || !known_missing_.insert(g.remote_id).second) continue;
            ++outcome_.counted["users that count as deleted"];
            const auto there = platform_.users.find(g.remote_id);
            if (there != platform_.users.end() && machine_.steady() - loss_accepted_at_ > 1h)
                broken("S10",
                       "user " + g.remote_id + " of " + name.text() + " counts as deleted, but exists");
        }
    for (const auto& [id, u] : platform_.users)
        if (!platform_.is_lost(u) && !u.late && !u.remarked && !u.copied && u.owner == owner_name &&
            !keys.contains(u.key))
            broken("I2", "the key of user " + id + " of " + u.slot + " is gone");
}

// `reconcile` does all that `plan` has just said, and begins with nothing else.
void history::judge_preview(const reconcile::preview& planned, const std::vector<policy::action>& begun)
{
    const bool of_time =
        planned.plan.wake_at <= policy::instant(std::chrono::floor<policy::duration>(machine_.wall())) ||
        planned.plan.waits_for_platform || !planned.unreached.empty();
    if (of_time) return void(++outcome_.counted["exempt: time changed the plan"]);
    ++outcome_.counted["plans compared with what was done"];
    std::map<policy::user_name, std::set<std::string>> said;
    for (const auto& change : planned.changes)
        said[change.name].insert(change.next);
    std::map<policy::user_name, std::set<std::string>> done;
    for (const auto& act : begun) {
        const std::string word = policy::contract_word(act);
        if (word.empty()) continue;
        if (!done.contains(act.name) && !said[act.name].contains(word))
            broken("plan",
                   "reconcile begins with " + word + " for " + act.name.text() + ", plan said nothing of it");
        done[act.name].insert(word);
    }
    for (const auto& [name, words] : said)
        for (const auto& word : words)
            if (!done[name].contains(word))
                broken("plan", "plan said " + word + " for " + name.text() + ", reconcile did not");
}

std::optional<policy::generation> history::stored(const std::string& key) const
{
    disk::state_database store{disk::paths(state_dir())};
    const auto state = store.load();
    if (!state) return std::nullopt;
    for (const auto& [name, user] : state->users)
        for (const auto& g : user.generations)
            if (g.fingerprint == key) {
                const auto pem = store.read_key(name, g.id);
                const auto kept = pem ? crypto::private_key::from_pem(pem->view()) : policy::failure{};
                if (kept && kept->fingerprint() == key) return g;
            }
    return std::nullopt;
}

// Of what is in use.
bool history::hooks_have_passed(const std::string& slot) const
{
    const auto user = std::ranges::find_if(users_, [&](const auto& u) { return u.slot() == slot; });
    if (user == users_.end() || !user->hook || hooks_edited_.contains(slot)) return true;
    std::error_code none;
    const auto generation = fs::read_symlink(directory_of(slot) / "current", none).native();
    const auto passed = hooks_passed_.find(slot);
    return generation.empty() || (passed != hooks_passed_.end() && passed->second == generation);
}

std::string history::not_converged()
{
    if (!valid_) return "the configuration is wrong";
    for (const auto& u : users_) {
        const auto key = in_use(u.slot());
        if (key.empty()) return u.slot() + " has no certificate in use";
        int of_slot = 0;
        bool found = false;
        for (const auto& [id, each] : platform_.users) {
            if (each.slot != u.slot() || platform_.is_lost(each) || each.copied ||
                (each.remarked && !platform_.is_in_use(each)))
                continue;
            ++of_slot;
            if (each.key != key) continue;
            found = true;
            if (each.consumer_group != u.consumer_group || each.contact != u.contact)
                return u.slot() + " is in use with another consumer group or contact than the file's";
            if (each.not_after <= machine_.true_time()) return u.slot() + " has expired";
        }
        if (!found) return u.slot() + " uses a certificate whose user is gone";
        if (!hooks_have_passed(u.slot())) return "the hooks of " + u.slot() + " have not succeeded";
        if (of_slot == 1) continue;
        std::string all =
            u.slot() + " has " + std::to_string(of_slot) + " users, in use " + key.substr(0, 8) + ":";
        for (const auto& [id, each] : platform_.users)
            if (each.slot == u.slot())
                all += " " + id + " of key " + each.key.substr(0, 8) + ", " +
                       std::to_string((machine_.true_time() - each.created_at) / 1s) + " s old;";
        return all;
    }
    for (const auto& [id, each] : platform_.users)
        if (each.owner == owner_name && !platform_.is_lost(each) &&
            std::ranges::none_of(users_, [&](const auto& u) { return u.slot() == each.slot; }))
            return "the user " + id + " of " + each.slot + ", which the file does not name, is still there";
    return "";
}

// Converged, and for half an hour no request changed anything: a pass in which nothing is due only reads.
bool history::has_settled()
{
    if (!not_converged().empty() || std::exchange(changes_, platform_.changes) != platform_.changes)
        converged_at_ = machine_.steady();
    return machine_.steady() - converged_at_ > 30min;
}

// What an edit changes is tried at once. Not after trouble with the login, which has a back-off of its own.
void history::expect_request()
{
    const auto quiet = [this] {
        return is_fair() && logged_in_ && !elsewhere_ && !platform_.login_is_dead();
    };
    const auto began = machine_.steady();
    if (!quiet() || began - platform_.fair_since < 30min || began - life_since_ < 30min) return;
    machine_.at_in_this_life(longest_untried, [this, quiet, began, before = outcome_.events] {
        if (!quiet() || stop_asked_ || outcome_.events != before) return;
        ++outcome_.counted["edits that must have led to a request"];
        if (platform_.last_request < began)
            broken("wake-up", "an edit is in force, but no request was sent for two minutes");
    });
}

// No wake-up is lost: an edit is read at once, and an agent with a login sends requests in every interval.
void history::judge_pace()
{
    const auto now = machine_.steady();
    if (edit_unread_ && !once_ && now - std::max(calm_since_, life_since_) > longest_unread)
        broken("wake-up", "an edit is not in force after five minutes");
    if (!logged_in_ || platform_.login_is_dead() || !machine_.alive() || stop_asked_) may_call_since_ = now;
    if (now - std::max({may_call_since_, platform_.last_request, calm_since_, life_since_}) > longest_silence)
        broken("wake-up", "no request for more than an hour");
}

}  // namespace simulation
