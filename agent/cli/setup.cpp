#include "agent/cli/setup.hpp"

#include "agent/cli/output.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/control.hpp"
#include "agent/service/notifier.hpp"
#include "config/parse.hpp"
#include "config/values.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/status.hpp"
#include "policy/words.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace cli {
namespace {

namespace verb = service::verb;

constexpr auto daemon_patience = std::chrono::hours(24);  // the daemon's own limits end the work much earlier
constexpr auto answer_time = std::chrono::seconds(2);     // for a daemon that has reached the time limit
constexpr std::chrono::milliseconds daemon_greeting = std::chrono::seconds(5);
constexpr std::chrono::milliseconds between_lock_and_socket = std::chrono::seconds(5);
constexpr auto ask_again = std::chrono::milliseconds(50);

policy::failure wrong_usage(std::string sentence)
{
    return {.code = policy::errc::usage, .context = std::move(sentence), .kind = policy::retry::never};
}

std::vector<std::string> user_names(const policy::desired_state& desired)
{
    std::vector<std::string> names;
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users)
            names.push_back(exposure.name + "/" + user.name);
    return names;
}

// Matches the user name alone, its beginning, or a similar spelling.
std::string nearest_user(const std::string& text, const policy::desired_state& desired)
{
    std::vector<std::string> short_names;
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users) {
            if (user.name == text) return exposure.name + "/" + user.name;
            short_names.push_back(user.name);
        }
    const auto full_names = user_names(desired);
    for (std::size_t i = 0; i < short_names.size(); ++i)
        if (!text.empty() && short_names[i].starts_with(text)) return full_names[i];
    if (const auto near = policy::nearest(text, short_names); !near.empty())
        return full_names[static_cast<std::size_t>(std::ranges::find(short_names, near) -
                                                   short_names.begin())];
    return policy::nearest(text, full_names);
}

// Suggests sudo where permission was denied.
policy::failure explained(policy::failure failed)
{
    const std::string denied = std::generic_category().message(EACCES);
    const auto at = failed.context.find(denied);
    if (::geteuid() != 0 && at != std::string::npos)
        failed.context = failed.context.substr(0, at) + "permission denied; run with sudo";
    return failed;
}

// Lasts until the daemon has answered.
struct waiting {
    explicit waiting(boost::asio::io_context& context) : timer(context) {}

    boost::asio::steady_timer timer;
    bool over = false;
};

// What each of these users waits for, according to the daemon's records.
void say_what_it_waits_for(const policy::desired_state& desired, const verb::of_users& asked)
{
    disk::state_database kept{disk::paths(desired.state_dir)};
    const auto stored = kept.load();
    if (!stored) return;
    const auto now = std::chrono::floor<policy::duration>(std::chrono::system_clock::now());
    for (const auto& s : policy::statuses(desired, *stored, now)) {
        if (!asked.names.empty() && !asked.names.contains(s.name)) continue;
        const bool in_use = s.state == policy::user_state::valid || s.state == policy::user_state::removing;
        const auto& sentence = s.last_error.empty() && !in_use ? s.sentence : s.last_error;
        if (!sentence.empty())
            std::cerr << "waiting: " << io::printable(policy::about(s.name, sentence)) << "\n";
    }
}

io::awaitable<void> report_waits(waiting& w, const policy::desired_state& desired,
                                 const verb::of_users& asked)
{
    for (auto pause = reconcile::first_wait_report; !w.over; pause = reconcile::wait_report_every) {
        w.timer.expires_after(pause);
        const auto [stopped] = co_await w.timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
        if (!stopped && !w.over) say_what_it_waits_for(desired, asked);
    }
}

// The daemon's answer; none if no daemon runs here.
policy::result<std::optional<service::verb_answer>> ask_daemon(const policy::desired_state& desired,
                                                               const service::verb_request& request,
                                                               std::chrono::milliseconds timeout)
{
    using answer = policy::result<std::optional<service::verb_answer>>;
    answer got = policy::failure{};
    boost::asio::io_context context{1};
    waiting w(context);
    const auto rethrow = [](std::exception_ptr bug) {
        if (bug) std::rethrow_exception(bug);
    };
    boost::asio::co_spawn(
        context,
        [&]() -> io::awaitable<void> {
            got = co_await service::ask_daemon(disk::paths(desired.state_dir), request, timeout);
            w.over = true;
            w.timer.cancel();
        },
        rethrow);
    if (const auto* asked = service::users_of(request))
        boost::asio::co_spawn(context, report_waits(w, desired, *asked), rethrow);
    context.run();
    return got;
}

// Only root and the agent's own user may write to the spool. The latter (the timer, or `sudo -u
// exposure-agent`) cannot restart units itself, so root's helper runs the hooks, as for
// `run --deploy unit`.
std::filesystem::path spool_of_the_unit()
{
    const std::filesystem::path directory = deploy::default_spool_directory;
    const bool ours = ::geteuid() != 0 && ::access((directory / "spool").c_str(), W_OK) == 0;
    return ours ? directory : std::filesystem::path();
}

constexpr std::size_t bar_width = 24;

const char* doing(policy::action_kind kind)
{
    using policy::action_kind;
    switch (kind) {
        case action_kind::onboard:
            return "onboarding";
        case action_kind::issue:
        case action_kind::submit:
            return "requesting";
        case action_kind::collect:
            return "fetching";
        case action_kind::verify:
            return "verifying";
        case action_kind::publish:
            return "publishing";
        case action_kind::deploy:
            return "running hooks";
        case action_kind::retire:
        case action_kind::retire_surplus:
        case action_kind::delete_before_replace:
            return "retiring";
        case action_kind::remove:
        case action_kind::forget:
            return "removing";
        default:
            return "updating";
    }
}

// One line on a terminal with the progress of a reconciliation; silent elsewhere.
class progress {
public:
    progress(const policy::desired_state&, bool wanted);

    reconcile::step_listener listener();

    // Clears the line.
    void finish();

private:
    void begin(const policy::action&);
    void end(const policy::action&, bool ok);
    void draw(const std::string& text);

    bool shown_;
    std::size_t total_ = 0;
    std::map<policy::user_name, bool> done_;  // users with a step so far; true: in place
};

progress::progress(const policy::desired_state& desired, bool wanted) : shown_(wanted && is_terminal(stderr))
{
    for (const auto& exposure : desired.exposures)
        total_ += exposure.users.size();
}

reconcile::step_listener progress::listener()
{
    if (!shown_) return {};
    return [this](const policy::action& step, const policy::result<void>* outcome) {
        if (outcome)
            end(step, outcome->has_value());
        else
            begin(step);
    };
}

void progress::begin(const policy::action& step)
{
    if (!step.name.user.empty()) done_.try_emplace(step.name, false);
    draw(std::string(doing(step.kind)) + " " +
         (step.name.user.empty() ? step.name.exposure : step.name.text()));
}

void progress::end(const policy::action& step, bool ok)
{
    const bool in_place =
        step.kind == policy::action_kind::publish || step.kind == policy::action_kind::deploy;
    if (ok && in_place) done_[step.name] = true;
}

void progress::draw(const std::string& text)
{
    const auto done =
        static_cast<std::size_t>(std::ranges::count_if(done_, [](const auto& user) { return user.second; }));
    const auto total = std::max<std::size_t>({total_, done_.size(), 1});
    const auto filled = done * bar_width / total;
    std::cerr << "\r\033[K[" << std::string(filled, '#') << std::string(bar_width - filled, '.') << "] "
              << done << "/" << total << "  " << text.substr(0, 48) << std::flush;
}

void progress::finish()
{
    if (shown_) std::cerr << "\r\033[K" << std::flush;
}

// Sends the notifications that a one-shot pass calls for.
io::awaitable<void> notify(service::application& app)
{
    auto login = co_await app.login_status();
    if (!login) co_return;
    service::notifier once(app);
    once.load();
    (void)co_await once.round(std::move(*login), {});
}

// The daemon's answer; none if no daemon runs, and `take` has locked the state directory for this process.
// A daemon holds the lock before it listens and after it stops listening, so this waits for a moment.
policy::result<std::optional<service::verb_answer>> ask_or_take(
    const policy::desired_state& desired, const service::verb_request& request,
    std::chrono::milliseconds timeout, const std::function<policy::result<void>()>& take)
{
    const auto until = std::chrono::steady_clock::now() + std::min(timeout, between_lock_and_socket);
    // a daemon that hangs is found out within the caller's own limit: only one that answers gets answer_time
    const auto* asked = service::users_of(request);
    if (asked && asked->timeout)
        if (const auto alive = ask_daemon(
                desired, verb::ping{}, std::min<std::chrono::milliseconds>(*asked->timeout, daemon_greeting));
            !alive)
            return alive.error();
    for (;;) {
        auto answer = ask_daemon(desired, request, timeout);
        if (!answer || *answer) return answer;
        auto taken = take();
        if (taken) return answer;
        if (taken.error().code != policy::errc::busy || std::chrono::steady_clock::now() >= until ||
            !disk::state_lock::is_daemons(disk::paths(desired.state_dir)))
            return taken.error();
        std::this_thread::sleep_for(ask_again);
    }
}

int run_here(const globals& common, service::application& app, service::verb_request request)
{
    progress bar(app.desired(), !common.json && service::users_of(request));
    service::verb_answer answer;
    app.run([](service::application& a, progress& shown, service::verb_request what,
               service::verb_answer& into) -> io::awaitable<void> {
        if (auto loaded = co_await a.state().load(); !loaded) {
            into = service::answer_of(loaded.error());
            into.schema = service::schema_of(what);
            co_return;
        }
        service::operations operations(a, service::operations::outcomes::in_answer, shown.listener());
        const bool tells = std::holds_alternative<verb::reconcile>(what);
        into = co_await operations.perform(std::move(what));
        if (tells) co_await notify(a);
    }(app, bar, std::move(request), answer));
    bar.finish();
    return show_answer(common, answer);
}

int run_in(service::application& app, std::function<io::awaitable<int>(service::application&)> work)
{
    int code = policy::exit_code::failed;
    app.run([](service::application& a, std::function<io::awaitable<int>(service::application&)> job,
               int& into) -> io::awaitable<void> { into = co_await job(a); }(app, std::move(work), code));
    return code;
}

}  // namespace

config::outcome read_and_report(const globals& common)
{
    auto loaded = service::read_configuration(common.config, service::this_host());
    for (const auto& warning : loaded.warnings)
        std::cerr << io::printable(config::to_string(warning)) << " (warning)\n";
    for (const auto& mistake : loaded.errors)
        std::cerr << io::printable(config::to_string(mistake)) << "\n";
    return loaded;
}

std::shared_ptr<const policy::desired_state> load_configuration(const globals& common)
{
    auto loaded = read_and_report(common);
    if (!loaded.state) return nullptr;
    return std::make_shared<const policy::desired_state>(std::move(*loaded.state));
}

policy::result<std::set<policy::user_name>> parse_names(const std::vector<std::string>& texts,
                                                        const policy::desired_state& desired)
{
    std::set<policy::user_name> names;
    for (const auto& text : texts) {
        const auto name = policy::parse_user_name(text);
        if (!name) {
            const auto meant = nearest_user(text, desired);
            return wrong_usage("'" + io::printable(text) + "' is not a user name (EXPOSURE/USER)" +
                               (meant.empty() ? "" : "; did you mean " + meant + "?"));
        }
        names.insert(*name);
    }
    return names;
}

policy::result<void> require_names(const std::vector<std::string>& texts, const std::string& verb,
                                   const policy::desired_state& desired)
{
    if (!texts.empty()) return {};
    const auto users = user_names(desired);
    return wrong_usage(verb + " needs the name of a user. Run: exposure-agent " + verb + " " +
                       (users.empty() ? "EXPOSURE/USER" : users.front()));
}

policy::result<policy::desired_exposure> find_exposure(const std::string& name,
                                                       const policy::desired_state& desired)
{
    std::vector<std::string> known;
    for (const auto& exposure : desired.exposures) {
        if (exposure.name == name) return exposure;
        known.push_back(exposure.name);
    }
    const auto meant = policy::nearest(name, known);
    return wrong_usage("'" + io::printable(name) + "' is not an exposure in the configuration" +
                       (meant.empty() ? "" : "; did you mean " + meant + "?"));
}

policy::result<policy::duration> parse_duration(const std::string& option, const std::string& text)
{
    const auto duration = config::read_duration(text);
    if (!duration)
        return wrong_usage(option + ": '" + io::printable(text) +
                           "' is not a valid duration (for example 90s, 15m or 2h)");
    return *duration;
}

int report_failure(const policy::failure& failed)
{
    std::cerr << "exposure-agent: " << io::printable(explained(failed).context) << "\n";
    return policy::exit_code::of(failed.code);
}

int show_answer(const globals& common, const service::verb_answer& answer)
{
    if (common.json) {
        print_json(service::to_json(answer));
        return answer.exit;
    }
    auto& out = answer.exit == policy::exit_code::done ? std::cout : std::cerr;
    for (const auto& message : answer.messages)
        out << io::printable(message) << "\n";
    return answer.exit;
}

int perform(const globals& common, service::verb_request request)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    return perform(common, desired, std::move(request));
}

int perform(const globals& common, std::shared_ptr<const policy::desired_state> desired,
            service::verb_request request)
{
    const auto caller = io::calling_account();
    const auto called = [&](verb::asked& by_whom) {
        by_whom.scheduled = !caller.person;
        if (caller.person) by_whom.by = caller.name;
    };
    std::visit(called, request);
    const auto* asked = service::users_of(request);
    const auto timeout = asked ? asked->timeout : std::nullopt;
    std::optional<service::application> app;
    const auto take = [&] {
        if (!app)
            app.emplace(desired,
                        service::application_options{.spool = spool_of_the_unit(), .timeout = timeout});
        return app->take_state_directory();
    };
    const auto answer =
        ask_or_take(*desired, request, timeout ? *timeout + answer_time : daemon_patience, take);
    if (!answer) return report_failure(answer.error());
    return *answer ? show_answer(common, **answer) : run_here(common, *app, std::move(request));
}

std::optional<policy::owner_change> owner_change_of(std::shared_ptr<const policy::desired_state> desired)
{
    service::application app(desired);
    const auto stored = app.store().load();
    if (!stored || stored->cloned) return std::nullopt;
    return policy::changed_owner(*desired, *stored);
}

bool daemon_runs(const policy::desired_state& desired)
{
    const auto answer = ask_daemon(desired, verb::ping{}, daemon_greeting);
    return answer && answer->has_value();
}

int with_platform(const globals& common, std::function<io::awaitable<int>(service::application&)> work)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    return with_platform(desired, std::move(work));
}

int with_platform(std::shared_ptr<const policy::desired_state> desired,
                  std::function<io::awaitable<int>(service::application&)> work)
{
    std::optional<service::application> app;
    const auto take = [&] {
        if (!app) app.emplace(desired);
        return app->take_state_directory();
    };
    const auto daemon = ask_or_take(*desired, verb::ping{}, daemon_greeting, take);
    if (!daemon) return report_failure(daemon.error());
    service::application_options borrowing{
        .borrowed_tokens = [](service::application& a) -> std::unique_ptr<platform::access_tokens> {
            return std::make_unique<service::daemon_tokens>(a.paths());
        }};
    if (*daemon) app.emplace(desired, std::move(borrowing));
    return run_in(*app, std::move(work));
}

int read_state(const globals& common, std::function<io::awaitable<int>(service::application&)> work)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    return run_in(app, std::move(work));
}

}  // namespace cli
