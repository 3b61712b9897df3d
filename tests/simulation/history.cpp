#include "tests/simulation/history.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/application.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/daemon.hpp"
#include "agent/service/operations.hpp"
#include "crypto/certificate.hpp"
#include "crypto/key.hpp"
#include "tests/simulation/machine.hpp"
#include "tests/simulation/observer.hpp"
#include "tests/simulation/platform.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace simulation {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace json = boost::json;

constexpr nanoseconds longest_life_after_faults = 30h;  // a slow READY may have to be abandoned first
constexpr nanoseconds longest_silence = 75min;   // without a request; after a 403 the agent waits for an hour
// 15 minutes, unless --timeout says otherwise, and the end; with the configuration that it began with
constexpr nanoseconds longest_one_shot = 20min;
constexpr nanoseconds longest_unreachable = 3min;  // a daemon, from its start or the end of a fault on
constexpr nanoseconds longest_unread = 5min;       // until an edit is in force
constexpr nanoseconds longest_stop = 5min;         // a token exchange may last for two minutes
constexpr nanoseconds longest_untried = 2min;      // until the first request after an edit
constexpr nanoseconds inaccuracy = 2min;     // of clocks in retire_after
constexpr const char* machine_id = "0123456789abcdef0123456789abcdef\n";
constexpr const char* other_machine_id = "fedcba9876543210fedcba9876543210\n";

// How long a verb may take: its own limit, and what it may have to wait for before and after (a pass or an
// exchange of tokens under way, each with requests of their own limits).
nanoseconds bound_of(const std::string& verb)
{
    if (verb == "rotate") return 18min;  // 15 minutes unless --timeout says otherwise
    return 6min;  // two exchanges of tokens that are not answered take two minutes each
}

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

// Child processes (hooks, systemctl); they fail with the probability set in the weather.
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

struct wanted_user {
    std::string name;
    std::string consumer_group;
    std::string contact = "team@example.com";
    std::string description;
    std::string retire_after = "24h";
    bool hook = false;
    bool replace = false;
    bool paused = false;

    std::string slot() const { return "logs/" + name; }
};

const std::map<std::string, nanoseconds> retire_afters = {{"0s", 0s}, {"1h", 1h}, {"24h", 24h}, {"3d", 72h}};

class history {
public:
    explicit history(const options& o)
        : options_(o),
          machine_(o.seed, o.root),
          disk_(std::make_unique<power>(o.root, o.root.native() + ".aside")),
          platform_(machine_, [this](const std::string& law, const std::string& what) { broken(law, what); })
    {
    }

    outcome play();

private:
    // ---- the host
    void write_secret();
    void write_machine_id(bool elsewhere);
    void write_configuration(bool valid = true);
    std::string configuration() const;
    void one_life();
    void program();
    void serve(std::shared_ptr<const policy::desired_state>);
    void run_once(std::shared_ptr<const policy::desired_state>);
    reconcile::preview preview(std::shared_ptr<const policy::desired_state>);
    void judge_preview(const reconcile::preview&, const std::vector<policy::action>& begun);
    service::surroundings surroundings();
    void ended_with(const policy::failure&);
    void cut_power();
    void cut_power(dice&);
    void try_states();
    [[noreturn]] void judge_state(std::uint64_t number, const fs::path& original, int to);
    [[noreturn]] void state_is_judged();
    void become_calm();
    void lose_state();
    void trouble_disk();

    // ---- people and faults
    dice dice_of(std::uint64_t event) const;
    bool happens(std::uint64_t event);
    bool is_fair() const;
    bool is_quiet() const;
    void plan_next_event();
    void something_happens();
    void change_weather();
    void set_weather(const weather&);
    void edit();
    void use_portal();
    void ask(const std::string& verb, const json::object& arguments);
    void ask_one_shot(const std::string& verb, const json::object& arguments);
    void hear();
    void stop_program();
    void watch_login();
    void help();
    wanted_user& any_user();
    std::string any_slot() { return any_user().slot(); }

    // ---- invariants
    void broken(const std::string& law, const std::string& what);
    void after_step();
    void judge_pace();
    void judge_records(const policy::stored_state&);
    void judge_plan(const policy::desired_state&, policy::instant now, const policy::plan_result&);
    bool has_settled();
    void judge_users(const policy::stored_state&);
    void expect_request();
    bool may_retire(const platform_user&);
    void note_retire_after(const wanted_user&);
    void look_at_outputs();
    void look_at_output(const std::string& slot);
    fs::path directory_of(const std::string& slot) const { return state_dir() / "live" / slot; }
    fs::path state_dir() const { return options_.root / "state"; }
    std::string in_use(const std::string& slot) const;
    std::optional<policy::generation> stored(const std::string& key) const;
    bool hooks_have_passed(const std::string& slot) const;
    std::string not_converged();
    std::string under_way() const;
    void say(const std::string& what) const;
    void most(const std::string& what, std::uint64_t many);

    struct conversation {
        int fd = -1;
        std::string verb;
        std::string slot;  // the user that it names; empty: all
        std::string heard;
        nanoseconds since{0};
    };

    options options_;
    machine machine_;
    dice event_dice_{0};  // of the event that happens
    std::unique_ptr<power> disk_;
    platform platform_;
    observer observer_;
    std::vector<wanted_user> users_;
    std::map<std::string, std::string> hooks_passed_;  // slot -> generation
    std::set<std::string> hooks_edited_;
    std::set<std::string> wanted_gone_;  // slots removed from the file, rolled back or replaced
    std::vector<conversation> conversations_;
    std::map<std::string, std::string> certificate_in_use_;  // by slot
    std::map<std::string, nanoseconds> replaced_at_;         // by certificate
    std::map<std::string, std::vector<std::pair<nanoseconds, nanoseconds>>>
        retire_after_;                                  // by slot: since, value
    std::map<std::string, nanoseconds> removed_at_;     // by slot
    std::map<std::string, nanoseconds> rotated_at_;     // by slot: asked for by a person
    std::map<std::string, nanoseconds> paused_since_;   // by slot: or not
    std::map<std::string, nanoseconds> retire_now_at_;  // by slot
    std::set<std::string> known_missing_;               // ids
    nanoseconds clock_changed_at_{0};
    nanoseconds loss_accepted_at_{-24h};
    nanoseconds stop_since_{0};
    int max_deletes_ = 10;
    std::uint64_t changes_ = 0;  // by requests, at the last look
    nanoseconds converged_at_{0};
    bool elsewhere_ = false;  // the state directory is on another machine
    outcome outcome_;
    std::deque<std::pair<std::string, service::verb_request>> one_shots_;  // verbs that wait for their turn
    std::set<std::string> rotations_asked_;  // by one-shots: their slots have no budget any more
    double share_of_one_shots_ = 0;          // of the lives; the others are daemons
    bool person_asks_ = false;               // this life is a person's command
    bool once_ = false;                      // this life is a one-shot
    bool disk_failed_ = false;               // in this life
    std::set<std::uint64_t> states_;         // digests of those that were judged
    int judged_to_ = -1;                     // this process judges a state: where it tells the outcome
    nanoseconds state_since_{0};
    std::string last_step_ = "start";  // action that was begun last
    bool valid_ = true;
    bool logged_in_ = false;
    bool calm_ = false;
    bool stop_asked_ = false;
    bool over_ = false;
    bool edit_unread_ = false;
    bool outputs_changed_ = false;
    std::string configuration_;  // as last written
    nanoseconds calm_since_{0};
    nanoseconds life_since_{0};
    nanoseconds disk_worked_since_{0};
    nanoseconds may_call_since_{0};
    int names_given_ = 0;
};

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
        json::object user{{"name", u.name}, {"consumer_group", u.consumer_group}, {"contact", u.contact}};
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
                            {"defaults", {{"key", "ecdsa-p256"}}},
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
    if (const auto* asked = std::get_if<service::verb::reconcile>(&what); asked && asked->accept_loss)
        loss_accepted_at_ = machine_.steady();
    std::optional<reconcile::preview> planned;
    const auto events = outcome_.events;
    if (word == "reconcile" && is_quiet() && machine_.chance().chance(0.5)) planned = preview(desired);
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

// No request and no change of the disk fails.
bool history::is_fair() const
{
    return platform_.now == weather() && !machine_.trouble.now();
}

bool history::is_quiet() const
{
    return is_fair() && !machine_.clock_is_wrong();
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

void history::cut_power()
{
    try_states();
    ++outcome_.counted["power cut"];
    cut_power(machine_.chance());
}

// Other states that the same power cut may leave behind. Each is built on a copy of the tree and judged by a
// process of its own, in which no more faults happen.
void history::try_states()
{
    const auto root = options_.root.native();
    const fs::path original = root + ".original";
    for (std::uint64_t number = 1; number <= options_.states && disk_->unsynced() > 0; ++number) {
        const fs::path copy = root + ".copy";
        copy_tree(options_.root, copy);
        fs::rename(options_.root, original);
        fs::rename(copy, options_.root);
        const auto [told, status] = in_child([&](int to) { judge_state(number, original, to); });
        fs::remove_all(options_.root);
        fs::rename(original, options_.root);
        const auto line = told.find('\n');
        if (line == std::string::npos) {
            broken("power cut", "state " + std::to_string(number) + " was not judged: the process ended with status " + std::to_string(status));
            continue;
        }
        if (!states_.insert(std::stoull(told)).second) continue;
        ++outcome_.counted["distinct states after a power cut"];
        ++outcome_.counted["distinct states after a power cut: " + under_way()];
        if (line + 1 < told.size())
            broken("power cut", "state " + std::to_string(number) + ": " + told.substr(line + 1));
    }
}

// What the program had begun last.
std::string history::under_way() const
{
    return platform_.last_was_token ? "login or refresh" : last_step_;
}

void history::judge_state(std::uint64_t number, const fs::path& original, int to)
{
    ::alarm(60);
    judged_to_ = to;
    const auto aside = options_.root.native() + ".aside." + std::to_string(number);
    auto clone = disk_->on_copy(original, options_.root, aside);
    [[maybe_unused]] auto* const of_the_parent = disk_.release();
    disk_ = std::move(clone);
    machine_.disk = disk_.get();
    auto dice = dice_of(power_cuts + static_cast<std::uint64_t>(machine_.life()) * 1000 + number);
    const auto broken_before = outcome_.broken.size();
    cut_power(dice);
    look_at_outputs();
    const auto digest = digest_of_tree(options_.root);
    const auto text = std::to_string(digest) + "\n";
    [[maybe_unused]] const auto written = ::write(to, text.data(), text.size());
    if (states_.contains(digest) || outcome_.broken.size() > broken_before) state_is_judged();
    become_calm();
    if (elsewhere_) write_machine_id(false);
    once_ = false;
    state_since_ = machine_.steady();
    while (!over_)
        one_life();
    state_is_judged();
}

// The process of a state ends; not by a signal, which its parent would receive, too.
void history::state_is_judged()
{
    std::string text;
    for (const auto& law : outcome_.broken)
        text += law + " ";
    [[maybe_unused]] const auto written = ::write(judged_to_, text.data(), text.size());
    machine_.disk = nullptr;
    disk_.reset();
    ::_exit(0);
}

// The pair in use survives, or the previous pair is restored as long as its user still exists.
void history::cut_power(dice& chance)
{
    say("power cut: " + std::to_string(disk_->unsynced()) + " changes are not synced");
    std::map<std::string, std::string> before;
    for (const auto& u : users_)  // a first `current` counts from its sync on
        before[u.slot()] = disk_->is_new(directory_of(u.slot()) / "current") ? "" : in_use(u.slot());
    const auto lost = disk_->cut(chance);
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
        const auto certificate = text_of(directory_of(slot) / "current" / "cert.pem");
        if (lives(key) && (now.empty() || platform_.deleted.contains(certificate)))
            broken("power cut",
                   slot + (now.empty() ? " lost its pair" : " has a pair back whose user is deleted") +
                       " although a usable one was in use");
    }
}

// ---- people and faults

wanted_user& history::any_user()
{
    return users_[event_dice_.below(users_.size())];
}

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

void history::change_weather()
{
    auto& dice = event_dice_;
    weather w;
    if (dice.chance(0.5)) w.lost_posts = 0.4;
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
        w.lies = some(0.2);
        if (w.lies > 0) w.cut_list = 0.5;
        w.no_instance = dice.chance(0.1) ? 0.7 : 0;
        w.slow_ready = some(0.3);
        w.list_lag = dice.chance(0.5) ? 0.5 : 0;
        w.hook_fails = some(dice.chance(0.5) ? 1 : 0.5);
        w.token_outage = some(dice.chance(0.5) ? 1 : 0.3);
        w.token_lost = dice.chance(0.3) ? 0.7 : 0;
        w.killed = some(0.02);
        w.doubled_posts = some(0.5);
        w.early = some(0.3);
        w.latency = dice.chance(0.2) ? 4s : 20ms;
    }
    set_weather(w);
    say("the weather changes");
}

void history::set_weather(const weather& w)
{
    if (w == weather() && platform_.now != w) platform_.fair_since = machine_.steady();
    platform_.now = w;
}

void history::edit()
{
    auto& dice = event_dice_;
    auto& user = any_user();
    switch (dice.below(13)) {
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
            if (users_.size() > 1) {
                removed_at_[user.slot()] = machine_.true_time();
                users_.erase(users_.begin() + (&user - users_.data()));
            }
            break;
        case 8:
            user.paused = !user.paused;
            paused_since_[user.slot()] = machine_.steady();
            break;
        case 12:  // a person tries out texts, each of which needs a new user
            for (int i = 1; i <= 5; ++i)
                machine_.at(i * nanoseconds(dice.between(300, 1800)) * 1'000'000'000,
                            [this, name = user.name, text = "text " + dice.hex(4)] {
                                const auto same = std::ranges::find(users_, name, &wanted_user::name);
                                if (calm_ || same == users_.end()) return;
                                same->description = text;
                                write_configuration();
                            });
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

void history::something_happens()
{
    auto& dice = event_dice_;
    switch (dice.below(24)) {
        case 22:
        case 23:
            trouble_disk();
            break;
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
            machine_.suspend(nanoseconds(dice.between(0, 6 * 3600)) * 1'000'000'000);
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

// Changes the owner in the user's marker.
void name_owner(platform_user& user, const std::string& owner)
{
    user.owner = owner;
    const auto at = user.description.find(owner_name);
    if (at != std::string::npos) user.description.replace(at, std::strlen(owner_name), owner);
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

void history::look_at_outputs()
{
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(state_dir() / "live" / "logs", none))
        look_at_output("logs/" + entry.path().filename().native());
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

// The faults stop: from now on, everything has to converge.
void history::become_calm()
{
    calm_ = true;
    calm_since_ = converged_at_ = machine_.steady();
    say("the faults stop");
    set_weather({});
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
                          .hook = dice.chance(0.5)});
    for (const auto& user : users_)
        note_retire_after(user);
    write_configuration();
    platform_.is_elsewhere = [this] { return elsewhere_; };
    platform_.loss_is_accepted = [this] { return machine_.steady() - loss_accepted_at_ < 1h; };
    platform_.may_retire = [this](const platform_user& u) { return may_retire(u); };
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
               machine_.steady() - rotated_at_[slot] > 24h;
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

}  // namespace

outcome play(const options& o)
{
    return history(o).play();
}

child_outcome in_child(const std::function<void(int)>& work)
{
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::cout.flush();
    std::fflush(stdout);
    const auto child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        ::close(ends[0]);
        work(ends[1]);
    }
    ::close(ends[1]);
    child_outcome outcome;
    char buffer[65536];
    for (ssize_t size; (size = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        outcome.told.append(buffer, static_cast<std::size_t>(size));
    ::close(ends[0]);
    ::waitpid(child, &outcome.status, 0);
    return outcome;
}

}  // namespace simulation
