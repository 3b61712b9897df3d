#include "agent/service/daemon.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/io/async.hpp"
#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "agent/io/systemd.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/control.hpp"
#include "agent/service/notifier.hpp"
#include "agent/service/operations.hpp"
#include "agent/service/pages.hpp"
#include "agent/service/status_view.hpp"
#include "policy/limits.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <malloc.h>
#include <utility>

namespace service {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds no_credential_due = 1h;
constexpr milliseconds shortest = 1s;
constexpr milliseconds outputs_patience = 2s;  // at the start, for directories that may hang
constexpr milliseconds reload_patience = 30s;  // of a command, while the configuration is being written
constexpr std::size_t verbs_at_once = 64;      // running or waiting; one more has to try again later

// How often the timer wakes up: as often as the systemd watchdog needs, and at least every minute.
milliseconds slice()
{
    const auto watchdog = io::notify::watchdog_interval();
    const auto cap = std::chrono::duration_cast<milliseconds>(policy::limits::wake_cap);
    return watchdog ? std::min(cap, std::chrono::duration_cast<milliseconds>(*watchdog / 2)) : cap;
}

class daemon {
public:
    daemon(std::shared_ptr<const policy::desired_state>, daemon_options);

    policy::result<void> run();

private:
    io::awaitable<void> main();
    io::task<void> begin();
    io::awaitable<void> inspect_outputs();
    io::awaitable<void> end();
    milliseconds delay_at_start();
    void open_control();
    void tick();
    io::awaitable<void> after_pass(std::string exposure, std::chrono::duration<double> took);
    void wake_all();
    void show_status();

    io::awaitable<verb_answer> perform(verb_request, std::function<bool()> is_gone);
    io::task<void> follow_edits();
    io::awaitable<std::shared_ptr<void>> take_credentials();
    io::task<crypto::secret> access_token(std::optional<crypto::secret> refused);

    io::awaitable<void> listen_for_hangups();
    io::awaitable<void> reload_when_asked();
    io::awaitable<void> reload();
    io::awaitable<config::outcome> read_configuration();
    void apply(edit);
    io::awaitable<milliseconds> fetch_credentials();
    io::awaitable<milliseconds> send_notifications();

    daemon_options options_;
    counters counted_;
    application app_;
    boost::asio::signal_set hangups_;  // registered from the start, so that SIGHUP never ends the daemon
    task_group group_;
    operations operations_;
    timers timers_;
    notifier notifier_;
    login_watch login_;
    exposure_tasks tasks_;
    io::async_lock fetching_;
    periodic_task credentials_;
    periodic_task notifications_;
    pages pages_;
    metrics_outlets metrics_;
    file_watch file_;
    io::async_event inspected_;
    io::async_event reload_asked_;
    io::async_event reloaded_;
    std::uint64_t edit_in_force_ = 0;  // every edit up to this one was read
    bool hangup_ = false;
    bool logged_in_ = false;  // since the last fetch of credentials
    std::size_t verbs_ = 0;
    std::vector<std::string> diagnostics_;  // of the last edit, logged once
    std::string refused_edit_;
    std::unique_ptr<web_server> control_;  // null: not open yet
    std::string control_error_;
    std::string status_;
    policy::result<void> result_;
};

daemon::daemon(std::shared_ptr<const policy::desired_state> desired, daemon_options options)
    : options_(std::move(options)),
      app_(std::move(desired), {.spool = options_.spool,
                                .watch =
                                    [this](const platform::api_call& call, std::string_view status) {
                                        counted_.count_request(call.operation, status);
                                        tasks_.progress(call.exposure);
                                    },
                                .runs_on = options_.runs_on}),
      hangups_(app_.executor(), SIGHUP),
      group_(app_.executor(), app_.stop()),
      operations_(
          app_, operations::outcomes::in_answer_and_log,
          [this](const policy::action& step, const policy::result<void>* outcome) {
              if (outcome) counted_.count_step(step, *outcome);
          },
          [this] { return take_credentials(); }),
      timers_(app_.executor(), app_.stop(), slice(), [this] { tick(); }),
      notifier_(app_),
      login_(app_, group_, timers_,
             [this] {
                 logged_in_ = true;
                 wake_all();
             }),
      tasks_(
          app_, group_, timers_,
          [this](const policy::action& step, const policy::result<void>* outcome) {
              tasks_.progress(step.name.exposure);
              if (outcome) counted_.count_step(step, *outcome);
          },
          [this](std::string exposure, std::chrono::duration<double> took) {
              return after_pass(std::move(exposure), took);
          }),
      fetching_(app_.executor()),
      credentials_(group_, timers_, "credentials", [this] { return fetch_credentials(); }),
      notifications_(group_, timers_, "notifications", [this] { return send_notifications(); }),
      pages_(app_, tasks_, login_, notifier_, counted_, options_.version),
      metrics_(app_, group_, timers_, pages_),
      file_(app_.executor(), options_.config_file, [this] { reload_asked_.set(); }),
      inspected_(app_.executor()),
      reload_asked_(app_.executor()),
      reloaded_(app_.executor())
{
}

policy::result<void> daemon::run()
{
    if (auto taken = app_.take_state_directory(disk::state_lock::owner::daemon); !taken) return taken;
    app_.run(main());
    return result_;
}

// However far begin() got: everything it started has ended when this returns.
io::awaitable<void> daemon::main()
{
    result_ = co_await begin();
    if (result_) co_await app_.stop().wait();
    if (!result_ && result_.error().code == policy::errc::stopping) result_ = {};
    app_.stop().request();
    co_await end();
}

io::task<void> daemon::begin()
{
    if (auto loaded = co_await app_.state().load(); !loaded) co_return loaded.error();
    notifier_.load();
    co_await login_.check();
    if (group_.stopping()) co_return io::stopped();
    group_.start("timers", timers_.run());
    group_.start("published directories", inspect_outputs());
    co_await timers_.wait(outputs_patience, inspected_);
    if (group_.stopping()) co_return io::stopped();
    open_control();
    metrics_.open();
    metrics_.start();
    group_.start("file watch", file_.run(app_.stop()));
    group_.start("SIGHUP", listen_for_hangups());
    group_.start("reload", reload_when_asked());
    login_.start();
    credentials_.start();
    notifications_.start();
    tasks_.follow(delay_at_start());
    file_.check();  // for edits made since the file was first read
    status_ = status_line(pages_.view(), app_.clock().now());
    io::notify::ready(status_);
    io::log(io::severity::info, io::events::started, {},
            "exposure-agent " + options_.version + " runs: " + status_);
    co_return policy::result<void>();
}

// A task of its own: a directory that hangs must not hold up logins or the other exposures.
io::awaitable<void> daemon::inspect_outputs()
{
    co_await app_.state().inspect_outputs("");
    inspected_.set();
}

// Spreads a fleet that starts at the same moment; a daemon that a person or a script starts begins at once.
milliseconds daemon::delay_at_start()
{
    if (!io::environment("INVOCATION_ID")) return 0ms;
    return start_delay(pages_.view(), disk::this_installation().machine + app_.state().stored().owner);
}

io::awaitable<void> daemon::end()
{
    io::notify::stopping("stopping");
    io::log(io::severity::info, io::events::stopping, {}, "stopping");
    reload_asked_.set();
    reloaded_.set();
    if (control_) control_->close();
    metrics_.close();
    co_await group_.ended();
    io::log(io::severity::info, io::events::stopped, {}, "stopped");
}

// Tried again at every tick: a disk that refuses the socket at the start may accept it later.
void daemon::open_control()
{
    if (control_ || group_.stopping()) return;
    control_points points{
        .perform =
            [this](verb_request request, std::function<bool()> is_gone) {
                return perform(std::move(request), std::move(is_gone));
            },
        .access_token =
            [this](std::optional<crypto::secret> refused) { return access_token(std::move(refused)); },
        .show = [this](web_request request) { return pages_.show(std::move(request)); }};
    auto server = std::make_unique<web_server>(group_, "control socket", control_handler(std::move(points)));
    const auto open = server->listen_unix(app_.paths().control_socket(), 0600, true);
    const auto error = open ? std::string() : open.error().context;
    if (!open && error != control_error_)
        io::log(io::severity::error, error + "; commands cannot reach this daemon");
    if (open && !control_error_.empty())
        io::log(io::severity::info, "the control socket is open: commands reach this daemon again");
    control_error_ = error;
    if (open) control_ = std::move(server);
}

// Runs once or twice a minute, on the event loop that does the work.
void daemon::tick()
{
    if (!tasks_.stuck()) io::notify::watchdog();
    file_.check();
    open_control();
    metrics_.open();
    notifications_.wake();
}

io::awaitable<void> daemon::after_pass(std::string exposure, std::chrono::duration<double> took)
{
    counted_.count_pass(exposure, took);
    co_await keep_configuration(app_);
    if (auto ended = co_await finish_decommission(app_); !ended)
        io::log(io::severity::error, ended.error().context);
    co_await login_.check();
    login_.wake();
    tasks_.follow(0ms);
    if (tasks_.idle()) {
        app_.close_connections();
        ::malloc_trim(0);  // returns the memory that only a pass needs to the system
    }
    show_status();
    metrics_.changed();
}

void daemon::wake_all()
{
    tasks_.wake();
    login_.wake();
    credentials_.wake();
}

void daemon::show_status()
{
    const auto view = pages_.view();
    counted_.keep_only(view);
    notifications_.wake();
    auto line = status_line(view, app_.clock().now());
    if (!diagnostics_.empty() || !refused_edit_.empty())
        line += "; the edited configuration is not in force: see the log";
    if (line == status_) return;
    status_ = std::move(line);
    io::notify::status(status_);
}

// Increments the number for its lifetime.
class counted_verb {
public:
    explicit counted_verb(std::size_t& number) : number_(number) { ++number_; }
    ~counted_verb() { --number_; }
    counted_verb(const counted_verb&) = delete;

private:
    std::size_t& number_;
};

io::awaitable<verb_answer> daemon::perform(verb_request request, std::function<bool()> is_gone)
{
    if (verbs_ >= verbs_at_once)
        co_return answer_of(policy::failure{
            .code = policy::errc::busy,
            .context =
                "the daemon is already running " + std::to_string(verbs_) + " commands; try again later"});
    const counted_verb here(verbs_);
    if (auto followed = co_await follow_edits(); !followed) co_return answer_of(followed.error());
    const auto exposures = exposures_of(app_.state(), request);
    auto answer = co_await operations_.perform(std::move(request), std::move(is_gone));
    co_await login_.check();
    login_.wake();
    if (!exposures.empty()) tasks_.wake(exposures);
    show_status();
    co_return answer;
}

// A command sees every edit that was made before it was called.
io::task<void> daemon::follow_edits()
{
    const auto edit = file_.check();
    const auto until = std::chrono::steady_clock::now() + reload_patience;
    while (edit_in_force_ < edit) {
        if (group_.stopping()) co_return io::stopped();
        const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
        if (left <= 0ms)
            co_return policy::failure{.code = policy::errc::config,
                                      .context = options_.config_file.native() +
                                                 " is still being written; try again when it is complete"};
        reloaded_.reset();
        co_await timers_.wait(left, reloaded_);
    }
    if (!refused_edit_.empty())
        co_return policy::failure{.code = policy::errc::config, .context = refused_edit_};
    co_return policy::result<void>();
}

io::awaitable<std::shared_ptr<void>> daemon::take_credentials()
{
    auto held = co_await fetching_.acquire();
    co_return std::make_shared<io::async_lock::holder>(std::move(held));
}

io::task<crypto::secret> daemon::access_token(std::optional<crypto::secret> refused)
{
    auto& tokens = app_.tokens();
    if (refused) co_return co_await tokens.after_refusal(std::move(*refused));
    co_return co_await tokens.current();
}

// Returns how long to wait until the next fetch is due.
io::awaitable<milliseconds> daemon::fetch_credentials()
{
    const auto alone = co_await fetching_.acquire();
    if (group_.stopping()) co_return no_credential_due;
    const auto which = std::exchange(logged_in_, false) ? reconcile::fetch::retry : reconcile::fetch::due;
    const auto outcome = co_await keep_credentials(app_, which);
    co_await login_.check();  // a host without exposures has no passes that do
    if (!outcome.wake_at) co_return no_credential_due;
    co_return std::max<milliseconds>(*outcome.wake_at - app_.clock().now(), shortest);
}

io::awaitable<milliseconds> daemon::send_notifications()
{
    auto login = co_await app_.login_status();
    if (!login) login = platform::login_status{.sentence = login.error().context};
    auto diagnostics = diagnostics_;
    if (!refused_edit_.empty()) diagnostics.push_back(refused_edit_);
    co_return co_await notifier_.round(std::move(*login), std::move(diagnostics));
}

io::awaitable<void> daemon::listen_for_hangups()
{
    const auto subscription = app_.stop().on_request([&] { hangups_.cancel(); });
    while (!group_.stopping()) {
        const auto [error, number] =
            co_await hangups_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
        if (error) co_return;
        hangup_ = true;
        file_.touch();
    }
}

io::awaitable<void> daemon::reload_when_asked()
{
    while (!group_.stopping()) {
        co_await reload_asked_.wait();
        if (group_.stopping()) co_return;
        reload_asked_.reset();
        const bool asked = std::exchange(hangup_, false);
        if (edit_in_force_ > 0) io::notify::reloading();
        co_await reload();
        if (group_.stopping()) co_return;
        if (asked) {
            app_.configure(app_.state().desired_snapshot());  // reads the files that it names again
            wake_all();
        }
        show_status();
        io::notify::ready(status_);
    }
}

// Reads again until nobody wrote to the file while it was read.
io::awaitable<config::outcome> daemon::read_configuration()
{
    for (;;) {
        co_await file_.settled(app_.stop());
        const auto edit = file_.check();
        auto read = co_await io::offload(app_.outputs(), [this] {
            return service::read_configuration(options_.config_file, options_.environment);
        });
        if (group_.stopping()) co_return read;
        if (file_.check() != edit) continue;
        edit_in_force_ = edit;
        co_return read;
    }
}

io::awaitable<void> daemon::reload()
{
    auto read = co_await read_configuration();
    if (group_.stopping()) co_return;
    auto edited = edit_of(app_.desired(), std::move(read));
    if (edited.diagnostics != diagnostics_ && !edited.diagnostics.empty()) {
        for (const auto& diagnostic : edited.diagnostics)
            io::log(io::severity::error, io::events::configuration_rejected, {}, diagnostic);
        io::log(io::severity::error, io::events::configuration_rejected, {},
                "the edited configuration is invalid; the previous one stays in force");
    }
    if (!diagnostics_.empty() && edited.diagnostics.empty() && !edited.desired && edited.restart.empty())
        io::log(io::severity::info, io::events::configuration_loaded, {},
                "the configuration file is valid again and matches the configuration in force");
    diagnostics_ = edited.diagnostics;
    if (!edited.restart.empty() && edited.restart != refused_edit_)
        io::log(io::severity::error, io::events::configuration_rejected, {}, edited.restart);
    refused_edit_ = edited.restart;
    if (edited.desired) apply(std::move(edited));
    reloaded_.set();
}

void daemon::apply(edit edited)
{
    for (const auto& warning : edited.warnings)
        io::log(io::severity::warning, warning);
    app_.configure(std::move(edited.desired));
    io::log(io::severity::info, io::events::configuration_loaded, {}, "the edited configuration is in force");
    metrics_.open();
    tasks_.follow(0ms);
    wake_all();
}

}  // namespace

policy::result<void> run(std::shared_ptr<const policy::desired_state> desired, daemon_options options)
{
    return daemon(std::move(desired), std::move(options)).run();
}

}  // namespace service
