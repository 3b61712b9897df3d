#include "tests/policy/model/history.hpp"

#include <algorithm>

namespace model {
namespace {

const std::vector<std::string> user_names = {"a", "b", "c"};
const std::vector<std::string> exposure_names = {"logs", "health"};

template <class T>
T* some(dice& random, std::vector<T>& from)
{
    return from.empty() ? nullptr
                        : &from[static_cast<std::size_t>(random.below(static_cast<int>(from.size())))];
}

policy::desired_exposure new_exposure(const std::string& name)
{
    policy::desired_exposure e;
    e.name = name;
    e.variant = name == "logs" ? policy::variant::log : policy::variant::health;
    e.base_url = "https://" + name + ".example.com";
    e.tenant = "t1";
    e.topic = "topic";
    return e;
}

}  // namespace

history::history(std::uint64_t seed, bool loud, bool everything)
    : w_(seed), laws_(w_), agent_(w_, laws_), wake_(w_.now)
{
    w_.loud = loud;
    w_.everything = everything;
}

policy::desired_user history::new_user(const std::string& exposure, const std::string& name)
{
    auto& random = w_.random;
    policy::desired_user u;
    u.name = name;
    u.consumer_group = "g";
    u.contact = "c@example.com";
    u.rotation.retire_after = random.pick(std::vector<duration>{0s, 1h, 24h});
    if (random.chance(200)) u.rotation.strategy = policy::strategy::replace;
    u.output.directory = "/" + exposure + "/" + name;
    if (random.chance(500)) u.hooks.push_back({.argv = {"/bin/reload"}});
    u.verify = random.chance(300);
    return u;
}

void history::found_configuration()
{
    auto& random = w_.random;
    auto& file = w_.desired;
    file.owner = "web-01";
    file.reconcile.interval = random.pick(std::vector<duration>{15min, 6h, 24h});
    file.reconcile.settle = random.pick(std::vector<duration>{2s, 15s});
    file.reconcile.max_creates_per_user = random.pick(std::vector{1, 3, 5});
    file.reconcile.max_deletes = random.pick(std::vector{1, 2, 10});
    file.reconcile.prune = random.chance(800);
    for (const auto& name : exposure_names) {
        if (name != "logs" && random.chance(500)) continue;
        auto e = new_exposure(name);
        for (const auto& user : user_names)
            if (e.users.empty() || random.chance(600)) e.users.push_back(new_user(name, user));
        if (random.chance(700))
            w_.instances[place_of(e)].push_back({.id = w_.new_id('i'), .ready_at = w_.now});
        file.exposures.push_back(std::move(e));
    }
    if (random.chance(60)) w_.cut_descriptions_at = static_cast<std::size_t>(20 + random.below(60));
    if (random.chance(100)) w_.cursed.insert({"logs", "a"});
}

// Half of all histories draw a few frequent faults, so that rare pairs of faults coincide.
void history::change_weather()
{
    auto& random = w_.random;
    w_.sky = {};
    const auto often = [&](int& chance, int usual, int bad) {
        if (random.chance(350)) chance = random.chance(250) ? bad : usual;
    };
    auto& sky = w_.sky;
    often(sky.unsent, 20, 300);
    often(sky.unanswered, 40, 500);
    often(sky.unavailable, 30, 400);
    often(sky.refused, 30, 300);
    often(sky.nonsense, 20, 200);
    often(sky.idless, 50, 500);
    often(sky.misnamed, 20, 300);
    often(sky.doubled, 50, 500);
    often(sky.late, 50, 500);
    often(sky.tardy, 10, 100);
    often(sky.lag, 200, 900);
    often(sky.slow, 100, 500);
    often(sky.never, 30, 300);
    often(sky.misfit, 30, 300);
    often(sky.empty, 20, 200);
    often(sky.early, 50, 300);
    often(sky.cut, 50, 500);
    often(sky.lies, 5, 100);
    often(sky.full, 20, 200);
    often(sky.unsynced, 10, 100);
    often(sky.hook, 100, 700);
    often(sky.broker_refuses, 100, 700);
    often(sky.broker_down, 100, 700);
    often(sky.kill, 10, 60);
    often(sky.meanwhile, 30, 200);
}

void history::survive(const std::function<void()>& action)
{
    try {
        action();
    } catch (const killed&) {
        ++kills_;
        agent_.start();
        wake_ = w_.agent_now();
    }
}

void history::pass(policy::plan_options options)
{
    w_.say("pass at " + std::to_string(w_.agent_now().time_since_epoch().count()));
    survive([&] { wake_ = agent_.pass(options); });
    if (agent_.waits()) wake_ = std::min(wake_, w_.agent_now() + duration(2 + w_.random.below(60)));
}

void history::time_passes()
{
    auto& random = w_.random;
    if (random.chance(600)) {
        w_.now += std::max<duration>(wake_ - w_.agent_now(), 1s);
        return;
    }
    w_.now += duration(random.below(random.pick(std::vector{20, 20, 4000, 100'000, 1'500'000})) + 1);
}

void history::something_happens()
{
    const auto dice = w_.random.below(100);
    ++w_.steps;
    if (dice < 62) {
        time_passes();
        w_.settle_time();
        pass();
    } else if (dice < 72) {
        edit_file();
    } else if (dice < 80) {
        others_act();
    } else if (dice < 84) {
        disk_suffers();
    } else if (dice < 95) {
        person_speaks();
    } else if (dice < 97) {
        change_weather();
    } else {
        w_.say("restart");
        agent_.start();
        wake_ = w_.agent_now();
    }
    laws_.check();
}

policy::desired_exposure& history::some_exposure()
{
    return *some(w_.random, w_.desired.exposures);
}

policy::desired_user* history::some_user()
{
    return w_.desired.exposures.empty() ? nullptr : some(w_.random, some_exposure().users);
}

void history::edit_file()
{
    auto& random = w_.random;
    auto& file = w_.desired;
    w_.say("the file is edited");
    const auto dice = random.below(20);
    if (dice < 3 || file.exposures.empty()) {
        if (file.exposures.size() > 1 && random.chance(300)) {
            file.exposures.pop_back();
        } else if (file.exposures.size() < exposure_names.size() && random.chance(500)) {
            file.exposures.push_back(new_exposure(exposure_names[file.exposures.size()]));
            file.exposures.back().users.push_back(new_user(file.exposures.back().name, "a"));
        } else if (!file.exposures.empty() && random.chance(300)) {
            some_exposure().tenant = random.chance(500) ? "t1" : "t2";
        }
        if (file.exposures.size() == 2 && file.exposures[0].name == file.exposures[1].name)
            file.exposures.pop_back();
        return;
    }
    if (dice < 7) {
        auto& e = some_exposure();
        const auto& name = random.pick(user_names);
        if (std::erase_if(e.users, [&](const auto& u) { return u.name == name; }) == 0)
            e.users.push_back(new_user(e.name, name));
        return;
    }
    if (dice == 7) {
        file.reconcile.prune = !file.reconcile.prune;
        return;
    }
    if (dice == 8) {
        file.reconcile.max_deletes = random.pick(std::vector{1, 2, 10});
        return;
    }
    auto* u = some_user();
    if (!u) return;
    switch (dice) {
        case 9:
        case 10:
            u->contact = random.chance(500) ? "c@example.com" : "d@example.com";
            return;
        case 11:
            u->consumer_group = random.chance(500) ? "g" : "h";
            return;
        case 12:
            u->key = random.chance(500) ? policy::key_type::rsa_3072 : policy::key_type::ed25519;
            return;
        case 13:
            u->description = random.chance(500) ? "" : "text";
            return;
        case 14:
            u->rotation.paused = !u->rotation.paused;
            return;
        case 15:
            u->rotation.strategy = random.chance(700) ? policy::strategy::overlap : policy::strategy::replace;
            return;
        case 16:
            u->rotation.retire_after = random.pick(std::vector<duration>{0s, 1h, 24h});
            return;
        case 17:
            u->output.directory += random.chance(500) ? "/x" : "/y";
            return;
        case 18:
            u->hooks.clear();
            if (random.chance(500)) u->hooks.push_back({.argv = {"/bin/reload"}});
            return;
        default:
            u->verify = !u->verify;
    }
}

void history::others_act()
{
    auto& random = w_.random;
    auto* u = some(random, w_.users);
    switch (random.below(9)) {
        case 0:
        case 1:
            if (!u || u->key.empty()) return;
            w_.say("somebody deletes " + u->shown.id);
            w_.users.erase(w_.users.begin() + (u - w_.users.data()));
            return;
        case 2: {
            if (!random.chance(300)) return;
            w_.say("somebody deletes every user");
            std::erase_if(w_.users, [&](const cloud_user& there) { return !there.key.empty(); });
            return;
        }
        case 3: {
            if (!u) return;
            auto stranger = *u;
            stranger.key.clear();
            stranger.shown.id = w_.new_id('f');
            if (random.chance(300)) {  // a copied description carries our marker along
                stranger.certificate_key = "somebody else's";
                stranger.ready_at = w_.now;
                stranger.shown.creation_date = w_.now;
            } else if (random.chance(500))
                stranger.shown.mark.reset();
            else if (stranger.shown.mark)
                stranger.shown.mark->owner = "web-02";
            if (!stranger.shown.mark) stranger.shown.description = "not yours";
            w_.users.push_back(std::move(stranger));
            return;
        }
        case 4: {
            if (!u || u->key.empty()) return;
            w_.say("somebody changes the mark of " + u->shown.id);
            u->keyless = u->remarked = true;
            if (random.chance(500) && u->shown.mark)
                u->shown.mark->owner = "web-02";
            else
                u->shown.mark.reset();
            u->shown.description = u->shown.mark ? policy::marker_text(*u->shown.mark) : "edited";
            return;
        }
        case 5:
        case 6: {
            if (w_.desired.exposures.empty()) return;
            auto& there = w_.instances[place_of(some_exposure())];
            if (there.size() > 1) {
                there.pop_back();
            } else if (there.size() == 1 && random.chance(200)) {
                w_.say("instance " + there.front().id + " vanishes");
                std::erase_if(w_.users,
                              [&](const cloud_user& in) { return in.instance == there.front().id; });
                std::erase_if(w_.late,
                              [&](const late_post& l) { return l.user.instance == there.front().id; });
                there.clear();
            } else if (there.size() == 1 && random.chance(200)) {
                there.push_back({.id = w_.new_id('i'), .ready_at = w_.now});
            }
            return;
        }
        default:
            return;
    }
}

void history::disk_suffers()
{
    auto& random = w_.random;
    auto& files = w_.files;
    const auto exempt = [&] {
        for (auto& u : w_.users)
            if (!u.key.empty() && !files.keys.contains({u.name, policy::generation_id(u.key)}))
                u.keyless = true;
        for (auto& l : w_.late)
            l.user.keyless = true;
    };
    switch (random.below(8)) {
        case 0:
        case 1:
            if (files.links.empty()) return;
            w_.say("a published directory is damaged");
            if (random.chance(500))
                files.links.begin()->second.damaged = true;
            else
                files.links.erase(files.links.begin());
            return;
        case 2:
            if (files.keys.empty()) return;
            w_.say("a key is lost");
            files.keys.erase(
                std::next(files.keys.begin(), random.below(static_cast<int>(files.keys.size()))));
            break;
        case 3: {
            if (files.records.empty()) return;
            const auto name = files.records.begin()->first;
            w_.say("the state of " + name.text() + " is lost");
            files.records.erase(name);
            std::erase_if(files.keys, [&](const auto& key) { return key.first.first == name; });
            std::erase_if(files.certificates, [&](const auto& c) { return c.first.first == name; });
            laws_.forget();
            break;
        }
        case 4:
            w_.say("a snapshot is taken");
            snapshot_ = files;
            return;
        case 5:
            if (!snapshot_) return;
            w_.say("the snapshot is restored");
            files = *snapshot_;
            laws_.forget();
            w_.deleted_by_us.clear();
            break;
        case 6:
            w_.say("the directory is copied to another machine, or taken over");
            files.cloned = !files.cloned;
            break;
        default: {
            const bool far = random.chance(200);
            const auto step =
                far ? duration(random.below(2'000'000) - 1'000'000) : duration(random.below(500) - 250);
            w_.clock_ahead = w_.clock_ahead == 0s ? step : 0s;
            w_.now += w_.desired.reconcile.settle;  // a clock step within the settle time would shorten it
            w_.settle_time();
            w_.say("the clock is off by " + std::to_string(w_.clock_ahead.count()) + " s");
            return;
        }
    }
    exempt();
    agent_.start();
    wake_ = w_.agent_now();
}

void history::person_speaks()
{
    auto& random = w_.random;
    auto* u = some_user();
    if (!u) return;
    user_name name;
    for (const auto& e : w_.desired.exposures)
        for (const auto& in : e.users)
            if (&in == u) name = {e.name, in.name};
    switch (random.below(6)) {
        case 0:
        case 1: {
            const bool now = random.chance(400);
            w_.say("rotate " + name.text() + (now ? " --retire-now" : ""));
            survive([&] { agent_.rotate(name, now); });
            return pass();
        }
        case 2:
        case 3:
            w_.say("rollback " + name.text());
            survive([&] { agent_.rollback(name); });
            return;
        case 4:
            w_.say("reconcile");
            survive([&] { agent_.forget_backoffs(); });
            return pass();
        default:
            w_.say("reconcile --accept-loss");
            survive([&] { agent_.forget_backoffs(); });
            return pass({.accept_loss = true});
    }
}

ending history::play()
{
    ending end;
    try {
        found_configuration();
        agent_.start();
        const int storms = 1 + w_.random.below(3);
        for (int storm = 0; storm < storms; ++storm) {
            change_weather();
            const int events = 20 + w_.random.below(150);
            for (int i = 0; i < events; ++i)
                something_happens();
        }
        clear_sky();
        converge("after the storm");
        w_.now += std::chrono::days(100);
        w_.settle_time();
        converge("a hundred days later");
    } catch (const broken_law& law) {
        end.broken = law.what();
        end.tail = w_.tail;
    }
    end.steps = w_.steps;
    end.posts = w_.posts;
    end.deletions = w_.deletions;
    end.kills = kills_;
    return end;
}

}  // namespace model
