#include "tests/simulation/history.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/io/log.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/daemon.hpp"
#include "crypto/certificate.hpp"
#include "crypto/key.hpp"
#include "tests/simulation/machine.hpp"
#include "tests/simulation/platform.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace simulation {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace json = boost::json;

constexpr nanoseconds longest_life_after_faults = 30h;  // a slow READY may have to be abandoned first

std::string text_of(const fs::path& file)
{
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Child processes (hooks, systemctl); they fail with the probability set in the weather.
class processes final : public io::process {
public:
    processes(machine& m, platform& p, io::stop_event& stop) : machine_(m), platform_(p), stop_(stop) {}

    io::task<io::process_outcome> run(io::process_request request) override
    {
        if (stop_.requested()) co_return io::stopped();
        const auto over = std::make_shared<io::async_event>(co_await boost::asio::this_coro::executor);
        auto& dice = machine_.chance();
        machine_.at_in_this_life(nanoseconds(dice.between(1'000'000, 3'000'000'000)),
                                 [over] { over->set(); });
        ++platform_.counted["process " + fs::path(request.argv.front()).filename().native()];
        co_await over->wait();
        io::process_outcome outcome{.exit_code = 0};
        if (request.argv.size() > 1 && request.argv[1] == "show") {
            outcome.out =
                "ActiveState=active\nSubState=running\nResult=success\nInvocationID=" + dice.hex(8) + "\n";
        } else if (dice.chance(platform_.now.hook_fails)) {
            outcome.exit_code = 1;
            outcome.err = "simulated failure\n";
        }
        co_return outcome;
    }

private:
    machine& machine_;
    platform& platform_;
    io::stop_event& stop_;
};

struct wanted_user {
    std::string name;
    std::string consumer_group;
    std::string contact = "team@example.com";
    std::string description;
    std::string retire_after = "24h";
    bool hook = false;
    bool replace = false;

    std::string slot() const { return "logs/" + name; }
};

class history {
public:
    explicit history(const options& o)
        : options_(o),
          machine_(o.seed, o.root),
          disk_(o.root, o.root.native() + ".aside"),
          platform_(machine_, [this](const std::string& law, const std::string& what) { broken(law, what); })
    {
    }

    outcome play();

private:
    // ---- the host
    void write_secret();
    void write_configuration(bool valid = true);
    std::string configuration() const;
    void one_life();
    void program();
    void cut_power();

    // ---- people and faults
    void plan_next_event();
    void something_happens();
    void change_weather();
    void edit();
    void ask(const std::string& verb, const json::object& arguments);
    void hear();
    void stop_program();
    void watch_login();
    void help();
    wanted_user& any_user();
    std::string any_slot() { return any_user().slot(); }

    // ---- invariants
    void broken(const std::string& law, const std::string& what);
    void after_step();
    void look_at_outputs();
    void look_at_output(const std::string& slot);
    fs::path directory_of(const std::string& slot) const { return state_dir() / "live" / slot; }
    fs::path state_dir() const { return options_.root / "state"; }
    std::string in_use(const std::string& slot) const;
    bool key_is_stored(const std::string& key) const;
    std::string not_converged();
    void say(const std::string& what) const;

    struct conversation {
        int fd = -1;
        std::string verb;
        std::string heard;
        nanoseconds since{0};
    };

    options options_;
    machine machine_;
    power disk_;
    platform platform_;
    std::vector<wanted_user> users_;
    std::set<std::string> wanted_gone_;  // slots removed from the file, rolled back or replaced
    std::vector<conversation> conversations_;
    outcome outcome_;
    bool valid_ = true;
    bool logged_in_ = false;
    bool calm_ = false;
    bool stop_asked_ = false;
    bool over_ = false;
    nanoseconds calm_since_{0};
    int names_given_ = 0;
};

void history::say(const std::string& what) const
{
    if (!options_.verbose) return;
    const auto at = policy::instant(std::chrono::floor<std::chrono::seconds>(machine_.true_time()));
    std::printf("%lld.%09lld step %llu life %d: %s\n", static_cast<long long>(at.time_since_epoch().count()),
                static_cast<long long>(machine_.steady().count() % 1'000'000'000),
                static_cast<unsigned long long>(machine_.steps()), machine_.life(), what.c_str());
    std::fflush(stdout);
}

void history::broken(const std::string& law, const std::string& what)
{
    say("BROKEN " + law + ": " + what);
    if (outcome_.broken.size() < 5)
        outcome_.broken.push_back(law + ": " + what + " (step " + std::to_string(machine_.steps()) +
                                  ", life " + std::to_string(machine_.life()) + ")");
}

// ---- the host

void history::write_secret()
{
    std::ofstream(options_.root / "client-secret") << client_secret_text << "\n";
    fs::permissions(options_.root / "client-secret", fs::perms(0600));
}

std::string history::configuration() const
{
    json::array users;
    for (const auto& u : users_) {
        json::object user{{"name", u.name}, {"consumer_group", u.consumer_group}, {"contact", u.contact}};
        if (!u.description.empty()) user["description"] = u.description;
        user["rotation"] = {{"retire_after", u.retire_after},
                            {"strategy", u.replace ? "replace" : "overlap"}};
        if (u.hook) user["hooks"] = json::array{json::object{{"restart", "app.service"}}};
        users.push_back(std::move(user));
    }
    const json::object file{{"version", 1},
                            {"owner", owner_name},
                            {"state_dir", state_dir().native()},
                            {"identity",
                             {{"auth_url", "https://login.example.com/SAAS/t/orion-123"},
                              {"client_id", "exposure-automation"},
                              {"client_secret", {{"file", (options_.root / "client-secret").native()}}},
                              {"redirect_url", "http://localhost"}}},
                            {"defaults", {{"key", "ecdsa-p256"}}},
                            {"exposures", json::array{json::object{{"name", "logs"},
                                                                   {"variant", "log"},
                                                                   {"base_url", "https://les.example.com"},
                                                                   {"tenant", "orion-123"},
                                                                   {"create_instance", true},
                                                                   {"users", std::move(users)}}}}};
    return json::serialize(file);
}

void history::write_configuration(bool valid)
{
    valid_ = valid;
    const auto file = options_.root / "agent.yaml";
    const auto next = options_.root / "agent.yaml.new";
    std::ofstream(next) << (valid ? configuration() : "version: one\n");
    fs::permissions(next, fs::perms(0644));
    fs::rename(next, file);
}

void history::program()
{
    if (options_.power && !calm_ && outcome_.events < options_.events) {
        auto& dice = machine_.chance();
        machine_.crash_at_change(1 + dice.below(dice.of({40U, 400U, 1500U})));
    }
    const auto file = options_.root / "agent.yaml";
    const auto environment = service::this_host();
    auto read = service::read_configuration(file, environment);
    if (!read.state || !read.errors.empty()) {
        ++outcome_.counted["end: configuration wrong at start"];
        return;
    }
    const auto ended = service::run(
        std::make_shared<const policy::desired_state>(std::move(*read.state)),
        {.config_file = file,
         .environment = environment,
         .spool = {},
         .version = "simulated",
         .runs_on = service::surroundings{.http =
                                              [this](io::stop_event& stop) {
                                                  return std::make_unique<network>(machine_, platform_, stop);
                                              },
                                          .process =
                                              [this](io::stop_event& stop) {
                                                  return std::make_unique<processes>(machine_, platform_,
                                                                                     stop);
                                              },
                                          .workers = machine_.workers(),
                                          .writer = machine_.writer()}});
    ++outcome_.counted[ended ? "end: stopped" : "end: " + std::string(policy::word_of(ended.error().code))];
    if (!ended) say("ended: " + ended.error().context);
    if (!ended && ended.error().code != policy::errc::config)
        broken("the daemon ends only when asked", ended.error().context);
    if (ended && !stop_asked_) broken("the daemon ends only when asked", "it returned without a stop");
}

// Closes the descriptors that a killed process would no longer hold: files below the root, and their locks.
void close_files_below(const fs::path& root, const power& disk)
{
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;
        const auto target = fs::read_symlink(entry.path(), ignored);
        const int fd = std::stoi(entry.path().filename());
        if (!ignored && target.native().starts_with(root.native()) && !disk.holds(fd)) ::close(fd);
    }
}

// SQLite tracks its locks per process and inode, so the next life gets a copy of the database.
void renew_files_of(const fs::path& directory, power& disk)
{
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
        if (!entry.is_regular_file()) continue;
        const auto copy = entry.path().native() + ".copy";
        fs::copy_file(entry.path(), copy, ignored);
        disk.replaced_by_copy(entry.path(), copy);
        fs::rename(copy, entry.path(), ignored);
    }
}

void history::one_life()
{
    stop_asked_ = false;
    auto& dice = machine_.chance();
    const auto ended = machine_.live([this] { program(); });
    for (auto& each : conversations_)
        ::close(each.fd);
    conversations_.clear();
    if (ended == machine::end::crashed) ++outcome_.counted["end: killed"];
    if (ended == machine::end::left_behind) ++outcome_.counted["end: left behind after a stop"];
    // `disk_` holds descriptors of files and directories of its own
    if (ended != machine::end::returned) close_files_below(options_.root, disk_);
    if (!calm_ && dice.chance(options_.power ? 1 : 0.3)) {
        cut_power();
    }
    if (ended != machine::end::returned) renew_files_of(state_dir() / "private", disk_);
    look_at_outputs();
    if (!outcome_.broken.empty()) over_ = true;
    // until the next start
    const auto until = machine_.steady() + nanoseconds(dice.between(0, 60'000'000'000));
    while (machine_.steady() < until)
        machine_.wait(until);
}

// The pair in use survives, or the previous pair is restored as long as its user still exists.
void history::cut_power()
{
    ++outcome_.counted["power cut"];
    say("power cut: " + std::to_string(disk_.unsynced()) + " changes are not synced");
    std::map<std::string, std::string> before;
    for (const auto& u : users_)
        before[u.slot()] = in_use(u.slot());
    const auto lost = disk_.cut(machine_.chance());
    for (const auto& each : lost)
        say("  " + each);
    std::error_code ignored;
    fs::remove(state_dir() / "private" / "state.db-shm", ignored);
    for (const auto& [slot, key] : before) {
        const auto now = in_use(slot);
        if (key == now) continue;
        ++outcome_.counted["power cut: another pair is in use"];
        const auto lives = [this](const std::string& of) {
            return std::ranges::any_of(platform_.users, [&](const auto& u) { return u.second.key == of; });
        };
        if (lives(key) && !lives(now))
            broken("power cut",
                   slot + (now.empty() ? " lost its pair" : " has a pair back whose user is deleted") +
                       " although a usable one was in use");
    }
}

// ---- people and faults

wanted_user& history::any_user()
{
    return users_[machine_.chance().below(users_.size())];
}

void history::plan_next_event()
{
    const auto rest = machine_.chance().chance(0.5)
                          ? nanoseconds(machine_.chance().between(0, 60)) * 1'000'000'000
                          : nanoseconds(machine_.chance().between(0, 4 * 3600)) * 1'000'000'000;
    machine_.at(rest, [this] {
        if (calm_ || outcome_.events == options_.events) return;
        ++outcome_.events;
        plan_next_event();
        something_happens();
    });
}

void history::change_weather()
{
    auto& dice = machine_.chance();
    weather w;
    const auto some = [&](double share) { return dice.chance(0.3) ? share : 0; };
    if (dice.chance(0.6)) {
        w.unreachable = some(dice.chance(0.2) ? 1 : 0.2);
        w.lost = some(0.1);
        w.unanswered = some(0.2);
        w.late = some(0.1);
        w.twice = some(0.1);
        w.refused = some(0.3);
        w.broken = some(0.3);
        w.cut_list = some(0.5);
        w.slow_ready = some(0.3);
        w.list_lag = some(0.5);
        w.hook_fails = some(0.5);
        w.token_outage = some(dice.chance(0.5) ? 1 : 0.3);
        w.latency = dice.chance(0.2) ? 4s : 20ms;
    }
    platform_.now = w;
    say("the weather changes");
}

void history::edit()
{
    auto& dice = machine_.chance();
    auto& user = any_user();
    switch (dice.below(9)) {
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
            break;
        case 4:
            user.hook = !user.hook;
            break;
        case 5:
            user.replace = !user.replace;
            wanted_gone_.insert(user.slot());
            break;
        case 6:
            if (users_.size() < 4)
                users_.push_back({.name = "user-" + std::to_string(++names_given_), .consumer_group = "g"});
            break;
        case 7:
            if (users_.size() > 1) {
                wanted_gone_.insert(user.slot());
                users_.erase(users_.begin() + (&user - users_.data()));
            }
            break;
        case 8:
            machine_.at(nanoseconds(dice.between(1, 3600)) * 1'000'000'000,
                        [this] { write_configuration(); });
            return write_configuration(false);
    }
    write_configuration();
}

void history::something_happens()
{
    auto& dice = machine_.chance();
    switch (dice.below(16)) {
        case 0:
        case 1:
        case 2:
            change_weather();
            break;
        case 3:
        case 4:
            say("edit");
            edit();
            break;
        case 5:
            ask("rotate",
                {{"names", json::array{json::value(any_slot())}}, {"retire_now", dice.chance(0.3)}});
            break;
        case 6: {
            const auto slot = any_slot();
            wanted_gone_.insert(slot);
            ask("rollback", {{"names", json::array{json::value(slot)}}});
            break;
        }
        case 7:
            ask("reconcile", {{"timeout", 60}, {"accept_loss", dice.chance(0.3)}});
            break;
        case 8:
            ask("deploy", {{"names", json::array{json::value(any_slot())}}, {"force", dice.chance(0.5)}});
            break;
        case 9: {  // somebody uses the portal
            if (platform_.users.empty()) break;
            auto user =
                std::next(platform_.users.begin(), static_cast<long>(dice.below(platform_.users.size())));
            say("the portal deletes " + user->first);
            ++outcome_.counted["portal deletes a user"];
            platform_.users.erase(user);
            break;
        }
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
            break;
        }
        case 14:
            say("the machine sleeps");
            ++outcome_.counted["suspend"];
            machine_.suspend(nanoseconds(dice.between(0, 6 * 3600)) * 1'000'000'000);
            break;
        case 15:
            say("the platform says that the token is no longer valid");
            platform_.end_access();
            break;
    }
}

void history::watch_login()
{
    machine_.at(nanoseconds(machine_.chance().between(60, 3600)) * 1'000'000'000, [this] {
        watch_login();
        if (platform_.login_is_dead()) logged_in_ = false;
        const bool asked =
            std::ranges::any_of(conversations_, [](const auto& c) { return c.verb == "login"; });
        if (logged_in_ || asked || !machine_.alive()) return;
        ++outcome_.counted["a person logs in"];
        ask("login", {{"refresh_token", platform_.new_refresh_token()}, {"force", true}});
    });
}

// Does what the program waits for an operator to do, once all faults have stopped.
void history::help()
{
    machine_.at(1h, [this] { help(); });
    if (!calm_ || !machine_.alive()) return;
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
        // a restored certificate stays in use, whatever the file says, until the operator rotates
        if (!user.held.empty()) ++outcome_.counted["a person helps: rolled back"];
        if (user.blocked || !user.held.empty())
            ask("rotate", {{"names", json::array{json::value(name.text())}}});
    }
}

void history::stop_program()
{
    if (!machine_.alive()) return;
    stop_asked_ = true;
    ::raise(SIGTERM);
}

// Runs a command the way the CLI does: as a request to the control socket.
void history::ask(const std::string& verb, const json::object& arguments)
{
    if (!machine_.alive()) return;
    say("ask " + verb);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    const auto path = (state_dir() / "control.sock").native();
    std::memcpy(to.sun_path, path.c_str(), std::min(path.size(), sizeof to.sun_path - 1));
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
        ::close(fd);
        if (verb == "login") ++outcome_.counted["login found no socket"];
        return;
    }
    const auto body = json::serialize(arguments);
    const auto request =
        "POST /v1/" + verb + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
        "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    [[maybe_unused]] const auto sent = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    conversations_.push_back({.fd = fd, .verb = verb, .since = machine_.steady()});
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
            if (machine_.steady() - each->since > 20min && !stop_asked_) {
                broken("verbs answer", each->verb + " has no answer after 20 minutes");
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
        if (each->verb == "login" && exit == "0") logged_in_ = true;
        say(each->verb + " answered: " + each->heard.substr(each->heard.find("\r\n\r\n") + 4));
        if (platform_.is_secret_in(each->heard))
            broken("I7", "an answer of " + each->verb + " holds a secret");
        ::close(each->fd);
        each = conversations_.erase(each);
    }
}

// ---- invariants

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

std::string history::in_use(const std::string& slot) const
{
    return known_key(text_of(directory_of(slot) / "current" / "key.pem"), read_private_key);
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
}

void history::look_at_outputs()
{
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(state_dir() / "live" / "logs", none))
        look_at_output("logs/" + entry.path().filename().native());
}

bool history::key_is_stored(const std::string& key) const
{
    disk::state_database store{disk::paths(state_dir())};
    const auto state = store.load();
    if (!state) return false;
    for (const auto& [name, user] : state->users)
        for (const auto& g : user.generations)
            if (g.fingerprint == key) {
                const auto pem = store.read_key(name, g.id);
                const auto kept = pem ? crypto::private_key::from_pem(pem->view()) : policy::failure{};
                return kept && kept->fingerprint() == key;
            }
    return false;
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
            if (each.slot != u.slot()) continue;
            ++of_slot;
            if (each.key != key) continue;
            found = true;
            if (each.consumer_group != u.consumer_group || each.contact != u.contact)
                return u.slot() + " is in use with another consumer group or contact than the file's";
            if (each.not_after <= machine_.true_time()) return u.slot() + " has expired";
        }
        if (!found) return u.slot() + " uses a certificate whose user is gone";
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
        if (each.owner == owner_name &&
            std::ranges::none_of(users_, [&](const auto& u) { return u.slot() == each.slot; }))
            return "the user " + id + " of " + each.slot + ", which the file does not name, is still there";
    return "";
}

void history::after_step()
{
    hear();
    if (!machine_.is_of_program()) return;
    if (!calm_ && machine_.steps() >= options_.steps) {
        calm_ = true;
        calm_since_ = machine_.steady();
        say("the faults stop");
        platform_.now = {};
        machine_.set_clock_wrong(0ns);
        for (auto& [id, user] : platform_.users)
            user.ready_at = std::min(user.ready_at, machine_.true_time() + 1min);
        for (auto& user : users_)
            user.retire_after = "1h";
        write_configuration();
    }
    if (calm_ && !over_ && machine_.steps() % 64 == 0 && not_converged().empty()) {
        over_ = true;
        stop_program();
    }
    if (calm_ && !over_ && machine_.steady() - calm_since_ > longest_life_after_faults) {
        broken("I9", not_converged());
        over_ = true;
        stop_program();
    }
    if (!outcome_.broken.empty() && !over_) {
        over_ = true;
        machine_.crash();
    }
}

outcome history::play()
{
    fs::create_directories(options_.root);
    write_secret();
    auto& dice = machine_.chance();
    platform_.access_life = dice.of<nanoseconds>({10min, 1h, 168h});
    platform_.certificate_life = dice.of<nanoseconds>({24h, 48h, 240h});
    const auto count = 1 + dice.below(3);
    while (users_.size() < count)
        users_.push_back({.name = "user-" + std::to_string(++names_given_),
                          .consumer_group = "g",
                          .hook = dice.chance(0.5)});
    write_configuration();
    platform_.in_use = [this](const std::string& slot) { return in_use(slot); };
    platform_.key_is_stored = [this](const std::string& key) { return key_is_stored(key); };
    platform_.may_go = [this](const std::string& slot) { return wanted_gone_.contains(slot); };
    if (options_.verbose) platform_.tell = [this](const std::string& what) { say(what); };
    machine_.after_step = [this] { after_step(); };
    machine_.at_change = [this](std::string_view call) {
        if (call == "rename" || call == "unlink" || call == "symlink") look_at_outputs();
    };
    machine_.on_log = [this](std::string_view line) {
        say("log " + std::string(line.substr(0, line.find('\n'))));
        if (platform_.is_secret_in(line)) broken("I7", "a log line holds a secret");
    };
    machine_.disk = &disk_;
    the_machine() = &machine_;
    plan_next_event();
    watch_login();
    help();
    while (!over_)
        one_life();
    the_machine() = nullptr;
    outcome_.steps = machine_.steps();
    if (const auto told = disk::state_database(disk::paths(state_dir())).history({}))
        for (const auto& each : *told)
            ++outcome_.counted["history: " + each.event];
    outcome_.counted["changes of the disk that a power cut undid"] += disk_.lost;
    for (const auto& [what, times] : platform_.counted)
        outcome_.counted[what] += times;
    return outcome_;
}

}  // namespace

outcome play(const options& o)
{
    return history(o).play();
}

}  // namespace simulation
