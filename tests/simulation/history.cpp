#include "tests/simulation/history_impl.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/daemon.hpp"

#include <boost/asio/this_coro.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace simulation {

using namespace std::chrono_literals;

namespace {

constexpr nanoseconds longest_life_after_faults = 30h;  // a slow READY may have to be abandoned first
constexpr nanoseconds longest_stop = 5min;              // a token exchange may last for two minutes
constexpr const char* machine_id = "0123456789abcdef0123456789abcdef\n";
constexpr const char* other_machine_id = "fedcba9876543210fedcba9876543210\n";

// Child processes (hooks, systemctl); they fail with a probability of `faults`.
class processes final : public io::process {
public:
    // passed: the generation with which each user's hooks have succeeded.
    processes(machine& m, platform& p, io::stop_event& stop, std::map<std::string, std::string>& passed)
        : machine_(m), platform_(p), stop_(stop), passed_(passed)
    {
    }

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
        } else if (const auto user = request.environment.find("EXPOSURE_USER");
                   user != request.environment.end()) {
            passed_["logs/" + user->second] = request.environment.at("EXPOSURE_GENERATION");
            platform_.hooks_passed_at["logs/" + user->second] = machine_.true_time();
        }
        co_return outcome;
    }

private:
    machine& machine_;
    platform& platform_;
    io::stop_event& stop_;
    std::map<std::string, std::string>& passed_;
};

// Closes the descriptors that a killed process would no longer hold: files below the root, their locks,
// sockets.
void close_files_below(const fs::path& root, const power& disk)
{
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;
        const auto target = fs::read_symlink(entry.path(), ignored);
        const int fd = std::stoi(entry.path().filename());
        if (ignored || fd <= STDERR_FILENO || disk.holds(fd)) continue;
        if (target.native().starts_with(root.native()) || target.native().starts_with("socket:")) ::close(fd);
    }
}

// SQLite tracks its locks per process and inode, so the next life gets a copy of the database.
void renew_files_of(const fs::path& directory, power& disk)
{
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
        if (!entry.path().filename().native().starts_with("state.db") || !entry.is_regular_file()) continue;
        const auto copy = entry.path().native() + ".copy";
        fs::copy_file(entry.path(), copy, ignored);
        disk.replaced_by_copy(entry.path(), copy);
        fs::rename(copy, entry.path(), ignored);
    }
}

}  // namespace

std::string text_of(const fs::path& file)
{
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    std::string text(16 << 10, '\0');
    const auto size = ::read(fd, text.data(), text.size());
    ::close(fd);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

void history::most(const std::string& what, std::uint64_t many)
{
    auto& known = outcome_.counted["most " + what];
    known = std::max(known, many);
}

void history::say(const std::string& what) const
{
    if (!options_.verbose) return;
    const auto at = policy::instant(std::chrono::floor<std::chrono::seconds>(machine_.true_time()));
    std::printf("%lld.%09lld step %llu life %d: %s\n", static_cast<long long>(at.time_since_epoch().count()),
                static_cast<long long>(machine_.steady().count() % 1'000'000'000),
                static_cast<unsigned long long>(machine_.steps()), machine_.life(), what.c_str());
    std::fflush(stdout);
}

void history::write_secret()
{
    std::ofstream(options_.root / "client-secret") << client_secret_text << "\n";
    fs::permissions(options_.root / "client-secret", fs::perms(0600));
}

// Read at the next start.
void history::write_machine_id(bool elsewhere)
{
    elsewhere_ = elsewhere;
    std::ofstream(options_.root / "machine-id") << (elsewhere ? other_machine_id : machine_id);
}

std::string history::configuration() const
{
    json::array users;
    for (const auto& u : users_) {
        json::object user{{"name", u.name},
                          {"consumer_group", u.consumer_group},
                          {"contact", u.contact},
                          {"key", u.key}};
        if (!u.description.empty()) user["description"] = u.description;
        user["rotation"] = {{"retire_after", u.retire_after},
                            {"strategy", u.replace ? "replace" : "overlap"},
                            {"paused", u.paused}};
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
                            {"reconcile", {{"max_deletes", max_deletes_}}},
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
    configuration_ = valid ? configuration() : "";
    const auto file = options_.root / "agent.yaml";
    const auto next = options_.root / "agent.yaml.new";
    std::ofstream(next) << (valid ? configuration() : "version: one\n");
    fs::permissions(next, fs::perms(0644));
    fs::rename(next, file);
}

service::surroundings history::surroundings()
{
    return {
        .http = [this](io::stop_event& stop) { return std::make_unique<network>(machine_, platform_, stop); },
        .process =
            [this](io::stop_event& stop) {
                return std::make_unique<processes>(machine_, platform_, stop, hooks_passed_);
            },
        .workers = machine_.workers(),
        .writer = machine_.writer()};
}

void history::program()
{
    if (options_.power && !calm_ && outcome_.events < options_.events) {
        auto dice = dice_of(power_cuts + static_cast<std::uint64_t>(machine_.life()));
        const auto at = 1 + dice.below(dice.of({40U, 400U, 1500U}));
        if (happens(power_cuts + static_cast<std::uint64_t>(machine_.life()))) machine_.crash_at_change(at);
    }
    const auto file = options_.root / "agent.yaml";
    auto read = service::read_configuration(file, service::this_host());
    if (!read.state || !read.errors.empty()) {
        ++outcome_.counted["end: configuration wrong at start"];
        return;
    }
    auto desired = std::make_shared<const policy::desired_state>(std::move(*read.state));
    once_ ? run_once(std::move(desired)) : serve(std::move(desired));
}

// The only reasons to end that nobody asked for: the configuration, and a disk that refuses the start.
void history::ended_with(const policy::failure& failed)
{
    ++outcome_.counted["end: " + std::string(policy::word_of(failed.code))];
    say("ended: " + failed.context);
    const bool of_disk = failed.code == policy::errc::disk || failed.code == policy::errc::disk_full;
    if (failed.code != policy::errc::config && !(of_disk && disk_failed_))
        broken("the program ends only when asked", failed.context);
}

// The daemon.
void history::serve(std::shared_ptr<const policy::desired_state> desired)
{
    const auto ended = service::run(std::move(desired), {.config_file = options_.root / "agent.yaml",
                                                         .environment = service::this_host(),
                                                         .spool = {},
                                                         .version = "simulated",
                                                         .runs_on = surroundings()});
    if (!ended) return ended_with(ended.error());
    ++outcome_.counted["end: stopped"];
    if (!stop_asked_) broken("the program ends only when asked", "the daemon returned without a stop");
}

reconcile::preview history::preview(std::shared_ptr<const policy::desired_state> desired)
{
    reconcile::preview seen;
    service::application app(std::move(desired), {.runs_on = surroundings()});
    if (auto taken = app.take_state_directory(); !taken) return ended_with(taken.error()), seen;
    platform_.only_reads = true;
    app.run([](service::application& a, reconcile::preview& into) -> io::awaitable<void> {
        if (auto loaded = co_await a.state().load(); loaded)
            into = co_await reconcile::preview_of(a.state(), {.ignore_backoff = true});
    }(app, seen));
    platform_.only_reads = false;
    return seen;
}

// What the timer's unit does, or a person without a daemon: one verb in a process of its own.
void history::run_once(std::shared_ptr<const policy::desired_state> desired)
{
    service::verb::reconcile scheduled;
    scheduled.scheduled = true;
    service::verb_request what = std::move(scheduled);
    std::string word = "reconcile";
    if (!one_shots_.empty() && !elsewhere_) {
        word = one_shots_.front().first;
        what = std::move(one_shots_.front().second);
        one_shots_.pop_front();
    }
    if (const auto* asked = std::get_if<service::verb::rotate>(&what); asked && asked->retire_now)
        retire_now_at_[asked->names.begin()->text()] = machine_.true_time();
    const auto* pass = std::get_if<service::verb::reconcile>(&what);
    const bool accepts_loss = pass && pass->accept_loss;
    if (accepts_loss) loss_accepted_at_ = machine_.steady();
    std::optional<reconcile::preview> planned;
    const auto events = outcome_.events;
    // `plan` accepts no loss
    if (pass && !accepts_loss && is_quiet() && machine_.chance().chance(0.5)) planned = preview(desired);
    std::vector<policy::action> begun;
    observer_.on_step = [&](const auto& act) { begun.push_back(act); };
    service::application app(std::move(desired), {.runs_on = surroundings()});
    if (auto taken = app.take_state_directory(); !taken) return ended_with(taken.error());
    const auto from = machine_.steady();
    service::verb_answer answer;
    app.run([](service::application& a, service::verb_request asked,
               service::verb_answer& into) -> io::awaitable<void> {
        if (auto loaded = co_await a.state().load(); !loaded) {
            into = service::answer_of(loaded.error());
            co_return;
        }
        service::operations operations(a, service::operations::outcomes::in_answer, {});
        into = co_await operations.perform(std::move(asked));
    }(app, std::move(what), answer));
    observer_.on_step = {};
    ++outcome_.counted["one-shot " + word + ": exit " + std::to_string(answer.exit)];
    most("seconds of a one-shot", static_cast<std::uint64_t>((machine_.steady() - from) / 1s));
    if (machine_.steady() - from > longest_one_shot)
        broken("verbs answer", "the one-shot " + word + " took too long");
    if (word == "login" && answer.exit == 0) logged_in_ = true;
    for (const auto& message : answer.messages)
        if (platform_.is_secret_in(message)) broken("I7", "a message of " + word + " holds a secret");
    if (planned && answer.exit == 0 && !stop_asked_ && events == outcome_.events && is_quiet())
        judge_preview(*planned, begun);
}

void history::one_life()
{
    stop_asked_ = false;
    edit_unread_ = false;
    disk_failed_ = machine_.trouble.now();
    life_since_ = machine_.steady();
    auto& dice = machine_.chance();
    once_ = dice.chance(share_of_one_shots_);
    person_asks_ = once_ && !one_shots_.empty() && !elsewhere_;
    platform_.events = nullptr;
    if (!once_) platform_.events = [this] { return outcome_.events; };
    observer_.on_step = {};
    platform_.only_reads = false;
    const auto ended = machine_.live([this] { program(); });
    for (auto& each : conversations_)
        ::close(each.fd);
    conversations_.clear();
    if (ended == machine::end::crashed) ++outcome_.counted["end: killed"];
    if (ended == machine::end::left_behind) broken("stop", "work was left behind");
    // `disk_` holds descriptors of files and directories of its own
    if (ended != machine::end::returned) close_files_below(options_.root, *disk_);
    if (!calm_ && dice.chance(options_.power ? 1 : 0.3)) {
        cut_power();
    }
    if (ended != machine::end::returned) renew_files_of(state_dir() / "private", *disk_);
    look_at_outputs();
    lose_state();
    if (calm_ && once_ && has_settled()) over_ = true;
    if (!outcome_.broken.empty()) over_ = true;
    // until the next start, or until the timer starts the next one-shot
    const bool is_late = (once_ && one_shots_.empty()) || machine_.trouble.now();
    const auto longest = is_late ? 1800'000'000'000 : dice.chance(0.5) ? 2'000'000'000 : 60'000'000'000;
    const auto until = machine_.steady() + nanoseconds(dice.between(0, longest));
    while (machine_.steady() < until)
        machine_.wait(until);
}

// The private directory is gone, as after a disk was replaced: new certificates, and a login, are needed.
void history::lose_state()
{
    const auto number = state_losses + static_cast<std::uint64_t>(machine_.life());
    if (calm_ || elsewhere_ || outcome_.events >= options_.events || !dice_of(number).chance(0.01) ||
        !happens(number))
        return;
    say("the private directory is lost");
    ++outcome_.counted["state lost"];
    write_machine_id(false);  // a new one belongs to the machine that makes it
    fs::remove_all(state_dir() / "private");
    platform_.lose_keys();
    one_shots_.clear();  // nobody logs in with a token that only the lost state knew as used
    logged_in_ = false;
}

// The faults stop: from now on, everything has to converge.
void history::become_calm()
{
    calm_ = true;
    calm_since_ = converged_at_ = machine_.steady();
    say("the faults stop");
    set_faults({});
    machine_.trouble.end();
    machine_.set_clock_wrong(0ns);
    clock_changed_at_ = machine_.true_time();
    for (auto& [id, user] : platform_.users)
        user.ready_at = std::min(user.ready_at, machine_.true_time() + 1min);
    for (auto& user : users_) {
        user.retire_after = "1h";
        note_retire_after(user);
        if (std::exchange(user.paused, false)) paused_since_[user.slot()] = machine_.steady();
    }
    max_deletes_ = 10;
    edit_unread_ = configuration() != configuration_;
    write_configuration();
}

void history::after_step()
{
    hear();
    if (!machine_.is_of_program()) return;
    if (std::exchange(outputs_changed_, false)) look_at_outputs();
    if (stop_asked_ && machine_.steady() - stop_since_ > longest_stop)
        broken("stop", "the daemon still runs five minutes after it was asked to stop");
    if (!calm_ && machine_.steps() >= options_.steps) {
        become_calm();
        if (elsewhere_) {
            write_machine_id(false);
            machine_.crash();
        }
    }
    if (calm_ && !over_) judge_pace();
    if (judged_to_ >= 0) {
        const bool looked = platform_.last_request > state_since_;
        const bool fails = machine_.steady() - calm_since_ > longest_life_after_faults;
        if (fails) broken("I9", not_converged());
        if (!outcome_.broken.empty() || (looked && machine_.steps() % 16 == 0 && not_converged().empty()))
            state_is_judged();
        return;
    }
    if (calm_ && !over_ && machine_.steps() % 64 == 0 && has_settled()) {
        over_ = true;
        stop_program();
    }
    if (calm_ && !over_ && machine_.steady() - calm_since_ > longest_life_after_faults) {
        const auto why = not_converged();
        broken("I9", why.empty() ? "requests still change something although everything is converged" : why);
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
    write_machine_id(false);
    auto& dice = machine_.chance();
    share_of_one_shots_ = dice.of({0.0, 0.0, 0.0, 0.3, 1.0});
    platform_.access_life = dice.of<nanoseconds>({10min, 1h, 168h});
    platform_.certificate_life = dice.of<nanoseconds>({24h, 48h, 48h, 240h});
    const auto count = 1 + dice.below(3);
    while (users_.size() < count)
        users_.push_back({.name = "user-" + std::to_string(++names_given_),
                          .consumer_group = "g",
                          .retire_after = dice.of({"0s", "1h", "24h", "24h"}),
                          .hook = dice.chance(0.5),
                          .replace = dice.chance(0.25)});
    for (const auto& user : users_) {
        note_retire_after(user);
        if (user.replace) wanted_gone_.insert(user.slot());
    }
    write_configuration();
    platform_.is_elsewhere = [this] { return elsewhere_; };
    platform_.loss_is_accepted = [this] { return machine_.steady() - loss_accepted_at_ < 1h; };
    platform_.may_retire = [this](const platform_user& u) { return may_retire(u); };
    platform_.waits_for_person = [this](const platform_user& u) { return waits_for_person(u); };
    platform_.person_waits = [this] { return !conversations_.empty() || person_asks_; };
    platform_.is_in_use = [this](const platform_user& u) {  // by certificate: a duplicate has the same key
        return text_of(directory_of(u.slot) / "current" / "cert.pem") == u.certificate;
    };
    platform_.stored = [this](const std::string& key) { return stored(key); };
    platform_.is_paused = [this](const std::string& slot) {
        const auto user = std::ranges::find_if(users_, [&](const auto& u) { return u.slot() == slot; });
        return user != users_.end() && user->paused && !edit_unread_ &&
               (!once_ || paused_since_[slot] < life_since_) && !in_use(slot).empty() &&
               machine_.steady() - std::max(paused_since_[slot], life_since_) > longest_unread &&
               (!rotated_at_.contains(slot) || machine_.steady() - rotated_at_[slot] > 24h);
    };
    platform_.hooks_have_passed = [this](const platform_user& u) {
        const auto replaced = replaced_at_.find(u.certificate);
        return hooks_have_passed(u.slot) ||
               (replaced != replaced_at_.end() && platform_.hooks_passed_at[u.slot] >= replaced->second);
    };
    platform_.rotation_is_asked = [this](const std::string& slot) {
        return rotations_asked_.contains(slot) || std::ranges::any_of(conversations_, [&](const auto& c) {
                   return c.verb == "rotate" && c.slot == slot;
               });
    };
    platform_.may_go = [this](const std::string& slot) {
        return wanted_gone_.contains(slot) || removed_at_.contains(slot);
    };
    if (options_.verbose) platform_.tell = [this](const std::string& what) { say(what); };
    machine_.after_step = [this] { after_step(); };
    machine_.at_change = [this](std::string_view call) {
        if (call != "rename" && call != "unlink" && call != "symlink") return;
        look_at_outputs();
        outputs_changed_ = true;
    };
    machine_.on_log = [this](std::string_view line) {
        say("log " + std::string(line.substr(0, line.find('\n'))));
        if (line.find("in force") != std::string_view::npos) edit_unread_ = false;
        // a person reads the log
        if (line.find("Run: exposure-agent login") != std::string_view::npos) logged_in_ = false;
        if (line.find("the edited configuration is in force") != std::string_view::npos) expect_request();
        if (platform_.is_secret_in(line)) broken("I7", "a log line holds a secret");
    };
    observer_.on_plan = [this](const auto& desired, const auto& stored, auto now, const auto& plan) {
        judge_records(stored);
        judge_plan(desired, now, plan);
    };
    observer_.on_any_step = [this](const auto& act) { last_step_ = policy::word_of(act.kind); };
    the_observer() = &observer_;
    machine_.disk = disk_.get();
    the_machine() = &machine_;
    plan_next_event();
    watch_login();
    help();
    while (!over_)
        one_life();
    the_machine() = nullptr;
    the_observer() = nullptr;
    if (observer_.counted().empty() && machine_.steps() > 1000)
        broken("coverage", "no plan was observed: the linker wraps functions that no longer exist");
    outcome_.steps = machine_.steps();
    for (const auto& [what, times] : observer_.counted())
        outcome_.counted[what] += times;
    if (const auto told = disk::state_database(disk::paths(state_dir())).history({}))
        for (const auto& each : *told)
            ++outcome_.counted["history: " + each.event];
    outcome_.counted["changes of the disk that a power cut undid"] += disk_->lost;
    for (const auto& [what, times] : platform_.counted)
        outcome_.counted[what] += times;
    return outcome_;
}

outcome play(const options& o)
{
    return history(o).play();
}

}  // namespace simulation
