#include "tests/simulation/history_impl.hpp"

#include "agent/disk/state_database.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// What people and faults do. Every event is drawn from the seed and its number alone.

namespace simulation {

using namespace std::chrono_literals;

namespace {

constexpr nanoseconds longest_unreachable = 3min;  // a daemon, from its start or the end of a fault on

// How long a verb may take: its own limit, and what it may have to wait for before and after (a pass or an
// exchange of tokens under way, each with requests of their own limits).
nanoseconds bound_of(const std::string& verb)
{
    if (verb == "rotate") return 18min;  // 15 minutes unless --timeout says otherwise
    return 6min;  // two exchanges of tokens that are not answered take two minutes each
}

// Changes the owner in the user's marker.
void name_owner(platform_user& user, const std::string& owner)
{
    user.owner = owner;
    const auto at = user.description.find(owner_name);
    if (at != std::string::npos) user.description.replace(at, std::strlen(owner_name), owner);
}

}  // namespace

// Each event has dice of its own: it is the same whether or not those before it happen.
dice history::dice_of(std::uint64_t event) const
{
    return dice(dice(options_.seed).next() ^ event * 0x9e3779b97f4a7c15ULL);
}

bool history::happens(std::uint64_t event)
{
    if (options_.skipped.contains(event)) return false;
    outcome_.happened.push_back(event);
    return true;
}

void history::plan_next_event()
{
    event_dice_ = dice_of(outcome_.events);
    auto& dice = event_dice_;
    const auto rest = dice.chance(0.5) ? nanoseconds(dice.between(0, 60)) * 1'000'000'000
                                       : nanoseconds(dice.between(0, 4 * 3600)) * 1'000'000'000;
    machine_.at(rest, [this, dice = event_dice_] {
        if (calm_ || outcome_.events == options_.events) return;
        const auto number = ++outcome_.events;
        plan_next_event();
        event_dice_ = dice;
        if (happens(number)) something_happens();
    });
}

// A person changes the text of a user later, which needs a new user.
void history::try_text(const std::string& name, nanoseconds later)
{
    machine_.at(later, [this, name, text = "text " + event_dice_.hex(4)] {
        const auto same = std::ranges::find(users_, name, &wanted_user::name);
        if (calm_ || same == users_.end()) return;
        same->description = text;
        write_configuration();
    });
}

void history::remove_user()
{
    if (users_.size() == 1) return;
    auto& user = any_user();
    removed_at_[user.slot()] = machine_.true_time();
    removed_users_.push_back(user);
    users_.erase(users_.begin() + (&user - users_.data()));
    write_configuration();
    if (event_dice_.chance(0.4))  // it was a mistake
        machine_.at(nanoseconds(event_dice_.between(60, 3600)) * 1'000'000'000, [this] {
            if (!calm_) name_again();
        });
}

void history::name_again()
{
    if (removed_users_.empty()) return;
    users_.push_back(std::move(removed_users_.back()));
    removed_users_.pop_back();
    auto& user = users_.back();
    user.paused = false;
    platform_.forget_budget(user.slot());  // its record may be gone
    note_retire_after(user);
    write_configuration();
}

// A person removes what points to the pair in use.
void history::remove_link()
{
    std::error_code ignored;
    if (fs::remove(directory_of(any_slot()) / "current", ignored))
        ++outcome_.counted["a person removes the link to the pair in use"];
}

void history::something_happens()
{
    auto& dice = event_dice_;
    constexpr std::uint64_t kinds = 25;
    // power cuts during a rollback or a removal are rare otherwise
    switch (options_.power && dice.chance(0.2) ? dice.of({6UL, kinds}) : dice.below(kinds)) {
        case 24:
            say("a link is removed");
            remove_link();
            break;
        case kinds:
            say("edit");
            dice.chance(0.7) ? remove_user() : name_again();
            break;
        case 22:
        case 23:
            trouble_disk();
            break;
        case 0:
        case 1:
        case 2:
            change_faults();
            break;
        case 3:
        case 4:
            say("edit");
            edit();
            break;
        case 5:
        case 16:
        case 17:
            ask("rotate",
                {{"names", json::array{json::value(any_slot())}}, {"retire_now", dice.chance(0.3)}});
            break;
        case 6:
        case 21: {
            const auto slot = any_slot();
            wanted_gone_.insert(slot);
            const json::object names{{"names", json::array{json::value(slot)}}};
            if (dice.chance(0.5)) return ask("rollback", names);
            ask("rotate", names);  // and does not wait for the end
            machine_.at(nanoseconds(dice.between(0, 30)) * 1'000'000'000, [this, names] {
                if (!calm_) ask("rollback", names);
            });
            break;
        }
        case 7:
            ask("reconcile", {{"timeout", 60}, {"accept_loss", dice.chance(0.3)}});
            break;
        case 8:
            ask("deploy", {{"names", json::array{json::value(any_slot())}}, {"force", dice.chance(0.5)}});
            break;
        case 9:
        case 18:
            use_portal();
            break;
        case 10:
            say("stop");
            stop_program();
            break;
        case 11:
        case 12:
            if (!machine_.alive()) break;
            if (dice.chance(0.5)) {
                say("kill at a change of the disk");
                machine_.crash_at_change(1 + dice.below(60));
            } else {
                say("kill");
                machine_.crash();
            }
            break;
        case 13: {
            const auto wrong =
                dice.chance(0.5) ? nanoseconds(0) : nanoseconds(dice.between(-7200, 7200)) * 1'000'000'000;
            say("the clock is set");
            ++outcome_.counted["clock set"];
            machine_.set_clock_wrong(wrong);
            clock_changed_at_ = machine_.true_time();
            platform_.clock_changed_at = machine_.steady();
            break;
        }
        case 14:
            say("the machine sleeps");
            ++outcome_.counted["suspend"];
            machine_.suspend(nanoseconds(dice.between(0, dice.of({6, 6, 6, 72}) * 3600)) * 1'000'000'000);
            break;
        case 15:
            say("the platform says that the token is no longer valid");
            platform_.end_access();
            break;
        case 19: {
            const auto used = platform_.used_refresh_token();
            if (used.empty() || !logged_in_ || platform_.login_is_dead()) break;
            ++outcome_.counted["a person logs in with a used refresh token"];
            ask("login", {{"refresh_token", used}, {"force", false}});
            break;
        }
        case 20: {  // a snapshot of the machine starts elsewhere, for a while
            if (platform_.users.empty() || elsewhere_ || !fs::exists(state_dir() / "private" / "state.db"))
                break;
            say("the state directory is copied to another machine");
            ++outcome_.counted["state directory copied"];
            write_machine_id(true);
            machine_.at(nanoseconds(dice.between(60, 4 * 3600)) * 1'000'000'000, [this] {
                if (!elsewhere_) return;
                write_machine_id(false);
                if (machine_.alive()) machine_.crash();
            });
            if (machine_.alive()) machine_.crash();
            break;
        }
    }
}

// No request and no change of the disk fails.
bool history::is_fair() const
{
    return platform_.now == faults() && !machine_.trouble.now();
}

bool history::is_quiet() const
{
    return is_fair() && !machine_.clock_is_wrong();
}

void history::set_faults(const faults& now)
{
    if (now == faults() && platform_.now != now) platform_.fair_since = machine_.steady();
    platform_.now = now;
}

void history::change_faults()
{
    auto& dice = event_dice_;
    faults now;
    if (dice.chance(0.5)) now.lost_posts = 0.4;
    const auto some = [&](double share) { return dice.chance(0.3) ? share : 0; };
    if (dice.chance(0.6)) {
        now.unreachable = some(dice.chance(0.2) ? 1 : 0.2);
        now.lost = some(0.1);
        now.unanswered = some(0.2);
        now.late = some(0.1);
        now.twice = some(0.1);
        now.refused = some(0.3);
        now.broken = some(0.3);
        now.cut_list = some(0.5);
        now.lies = some(0.2);
        if (now.lies > 0) now.cut_list = 0.5;
        now.no_instance = dice.chance(0.1) ? 0.7 : 0;
        now.slow_ready = some(0.3);
        now.list_lag = dice.chance(0.5) ? 0.5 : 0;
        now.hook_fails = some(dice.chance(0.5) ? 1 : 0.5);
        now.token_outage = some(dice.chance(0.5) ? 1 : 0.3);
        now.token_lost = dice.chance(0.3) ? 0.7 : 0;
        now.killed = some(0.02);
        now.doubled_posts = some(0.5);
        now.early = some(0.3);
        now.unusable = some(0.3);
        now.latency = dice.chance(0.2) ? 4s : 20ms;
    }
    set_faults(now);
    say("the faults change");
}

// For a while the disk is full, read-only, or fails.
void history::trouble_disk()
{
    auto& dice = event_dice_;
    const int error = dice.of({ENOSPC, ENOSPC, EROFS, EIO});
    const auto room = dice.of<std::int64_t>({0, 4096, 30'000, 600'000});
    say("trouble with the disk: " + std::string(std::strerror(error)) + ", room for " + std::to_string(room));
    ++outcome_.counted[std::string("disk: ") + std::strerror(error)];
    machine_.trouble.begin(error, dice.of({0.02, 0.3, 1.0}), room);
    disk_failed_ = true;
    machine_.at(nanoseconds(dice.between(10, 7200)) * 1'000'000'000, [this] {
        machine_.trouble.end();
        disk_worked_since_ = platform_.fair_since = machine_.steady();
    });
}

wanted_user& history::any_user()
{
    return users_[event_dice_.below(users_.size())];
}

void history::edit()
{
    auto& dice = event_dice_;
    auto& user = any_user();
    switch (dice.below(15)) {
        case 13:
            user.key = user.key == "ecdsa-p256" ? "ecdsa-p384" : "ecdsa-p256";
            break;
        case 14:
            return name_again();
        case 0:
            user.consumer_group = "group-" + dice.hex(4);
            break;
        case 1:
            user.contact = dice.hex(4) + "@example.com";
            break;
        case 2:
            user.description = "text " + dice.hex(4);
            break;
        case 3:
            user.retire_after = dice.of({"0s", "1h", "24h", "3d"});
            note_retire_after(user);
            break;
        case 4:
            user.hook = !user.hook;
            hooks_edited_.insert(user.slot());
            break;
        case 5:
            user.replace = !user.replace;
            wanted_gone_.insert(user.slot());
            break;
        case 6:
            if (users_.size() < 4)
                users_.push_back({.name = "user-" + std::to_string(++names_given_), .consumer_group = "g"});
            note_retire_after(users_.back());
            break;
        case 7:
            return remove_user();
        case 8:
            user.paused = !user.paused;
            paused_since_[user.slot()] = machine_.steady();
            if (user.paused && dice.chance(0.5))
                try_text(user.name, nanoseconds(dice.between(600, 7200)) * 1'000'000'000);
            break;
        case 12:  // a person tries out texts, each of which needs a new user
            for (int i = 1; i <= 5; ++i)
                try_text(user.name, i * nanoseconds(dice.between(300, 1800)) * 1'000'000'000);
            return;
        case 9:
            max_deletes_ = dice.of({1, 2, 10});
            break;
        case 10:  // all but one at once
            for (const auto& each : users_)
                if (each.name != user.name) removed_at_[each.slot()] = machine_.true_time();
            users_ = {wanted_user(user)};
            break;
        case 11:
            machine_.at(nanoseconds(dice.between(1, 3600)) * 1'000'000'000,
                        [this] { write_configuration(); });
            return write_configuration(false);
    }
    write_configuration();
}

void history::use_portal()
{
    if (platform_.users.empty()) return;
    auto& dice = event_dice_;
    auto& [id, user] =
        *std::next(platform_.users.begin(), static_cast<long>(dice.below(platform_.users.size())));
    const bool old = machine_.true_time() - std::max(user.created_at, user.ready_at) > 1h;
    switch (dice.below(4)) {
        case 0:
        case 1:
            say("the portal deletes " + id);
            ++outcome_.counted["portal deletes a user"];
            platform_.users.erase(std::string(id));
            break;
        case 2: {
            say("the portal copies " + id + " for another owner");
            ++outcome_.counted["portal copies a user"];
            auto copy = user;
            copy.id = "u-" + dice.hex(12);
            copy.copied = true;
            name_owner(copy, "web-02");
            platform_.users.emplace(copy.id, copy);
            break;
        }
        case 3: {
            if (!old) break;
            say("the portal changes the marker of " + id);
            ++outcome_.counted["portal changes a marker"];
            user.remarked = true;
            name_owner(user, "web-02");
            break;
        }
    }
}

void history::watch_login()
{
    machine_.at(nanoseconds(machine_.chance().between(60, 3600)) * 1'000'000'000, [this] {
        watch_login();
        if (platform_.login_is_dead()) logged_in_ = false;
        const bool asked =
            std::ranges::any_of(conversations_, [](const auto& c) { return c.verb == "login"; }) ||
            std::ranges::any_of(one_shots_, [](const auto& each) { return each.first == "login"; });
        if (logged_in_ || asked || elsewhere_ || !(machine_.alive() || once_)) return;
        ++outcome_.counted["a person logs in"];
        ask("login", {{"refresh_token", platform_.new_refresh_token()}, {"force", true}});
    });
}

// Does what the program waits for an operator to do, once all faults have stopped.
void history::help()
{
    machine_.at(1h, [this] { help(); });
    if (!calm_ || !(machine_.alive() || once_)) return;
    const auto state = disk::state_database(disk::paths(state_dir())).load();
    if (!state) return broken("the state database can be read", state.error().context);
    const auto says_why = [this](const std::string& of, const policy::verdict& blocked) {
        if (blocked.sentence.empty()) broken("I10", of + " is blocked without a sentence");
        ++outcome_.counted["a person helps: " + blocked.reason];
    };
    for (const auto& [name, exposure] : state->exposures)
        if (exposure.blocked) {
            says_why(name, *exposure.blocked);
            ask("reconcile", {{"timeout", 60}, {"accept_loss", true}});
        }
    for (const auto& [name, user] : state->users) {
        if (user.blocked) says_why(name.text(), *user.blocked);
        if (user.blocked && user.blocked->reason == policy::word_of(policy::reason::strategy_replace))
            std::erase_if(platform_.users,
                          [&](const auto& u) { return u.second.remarked && u.second.slot == name.text(); });
        // a restored certificate stays in use, whatever the file says, until the operator rotates
        if (!user.held.empty()) ++outcome_.counted["a person helps: rolled back"];
        if (user.blocked || !user.held.empty())
            ask("rotate", {{"names", json::array{json::value(name.text())}}});
    }
}

void history::stop_program()
{
    if (!machine_.alive()) return;
    if (!std::exchange(stop_asked_, true)) stop_since_ = machine_.steady();
    ::raise(SIGTERM);
}

// Without a daemon: the next one-shot runs the command.
void history::ask_one_shot(const std::string& verb, const json::object& arguments)
{
    say("one-shot " + verb);
    if (verb == "rollback") rolled_back_at_ = machine_.steady();
    const auto* named = arguments.if_contains("names");
    service::verb::of_users users;
    if (named) users.names.insert(*policy::parse_user_name(std::string(named->at(0).as_string())));
    const auto flag = [&](const char* name) {
        return arguments.contains(name) && arguments.at(name).as_bool();
    };
    service::verb_request request;
    if (verb == "rotate") {
        rotations_asked_.insert(users.names.begin()->text());
        request = service::verb::rotate{users, flag("retire_now")};
    } else if (verb == "rollback") {
        request = service::verb::rollback{users};
    } else if (verb == "deploy") {
        request = service::verb::deploy{users, flag("force")};
    } else if (verb == "login") {
        request = service::verb::login{
            .refresh_token = crypto::secret(std::string(arguments.at("refresh_token").as_string())),
            .force = flag("force")};
    } else {
        request = service::verb::reconcile{users, flag("accept_loss")};
    }
    one_shots_.emplace_back(verb, std::move(request));
}

// Runs a command the way the CLI does: as a request to the control socket.
void history::ask(const std::string& verb, const json::object& arguments)
{
    if (share_of_one_shots_ == 1 || (once_ && machine_.alive())) return ask_one_shot(verb, arguments);
    if (!machine_.alive()) return;
    say("ask " + verb);
    if (verb == "rollback") rolled_back_at_ = machine_.steady();
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    const auto path = (state_dir() / "control.sock").native();
    std::memcpy(to.sun_path, path.c_str(), std::min(path.size(), sizeof to.sun_path - 1));
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
        ::close(fd);
        if (verb == "login") ++outcome_.counted["login found no socket"];
        const auto up = machine_.steady() - std::max(life_since_, disk_worked_since_);
        if (!machine_.trouble.now() && !stop_asked_ && up > longest_unreachable)
            broken("verbs answer", "the control socket of a running daemon is closed");
        return;
    }
    const auto body = json::serialize(arguments);
    const auto request =
        "POST /v1/" + verb + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
        "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    [[maybe_unused]] const auto sent = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    const auto* names = arguments.if_contains("names");
    const std::string slot(names ? names->at(0).as_string() : "");
    conversations_.push_back({.fd = fd, .verb = verb, .slot = slot, .since = machine_.steady()});
    if (verb == "rotate") platform_.forget_budget(slot);
    if (verb == "rotate") rotated_at_[slot] = machine_.steady();
    const auto says = [&](const char* what) {
        const auto* said = arguments.if_contains(what);
        return said && said->as_bool();
    };
    if (says("retire_now")) retire_now_at_[slot] = machine_.true_time();
    if (says("accept_loss")) loss_accepted_at_ = machine_.steady();
}

void history::hear()
{
    for (auto each = conversations_.begin(); each != conversations_.end();) {
        char buffer[8192];
        const auto size = ::recv(each->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (size > 0) {
            each->heard.append(buffer, static_cast<std::size_t>(size));
            continue;
        }
        if (size < 0) {
            if (machine_.steady() - each->since > bound_of(each->verb) && !stop_asked_) {
                broken("verbs answer", each->verb + " has no answer after " +
                                           std::to_string((machine_.steady() - each->since) / 1s) +
                                           " seconds");
                each->since = machine_.steady() + 1000h;
            }
            ++each;
            continue;
        }
        const auto at = each->heard.find("\"exit\":");
        const auto exit = at == std::string::npos
                              ? "none"
                              : each->heard.substr(at + 7, each->heard.find_first_of(",}", at) - at - 7);
        ++outcome_.counted["verb " + each->verb + ": exit " + exit];
        most("seconds until the answer of " + each->verb,
             static_cast<std::uint64_t>((machine_.steady() - each->since) / 1s));
        if (each->verb == "login" && exit == "0") logged_in_ = true;
        say(each->verb + " answered: " + each->heard.substr(each->heard.find("\r\n\r\n") + 4));
        if (platform_.is_secret_in(each->heard))
            broken("I7", "an answer of " + each->verb + " holds a secret");
        ::close(each->fd);
        each = conversations_.erase(each);
    }
}

}  // namespace simulation
