#include "agent/service/operations.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/platform/oauth.hpp"
#include "agent/reconcile/observe.hpp"
#include "agent/service/import.hpp"
#include "agent/service/login_watch.hpp"
#include "agent/service/notifier.hpp"
#include "policy/action.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"
#include "policy/plan.hpp"
#include "policy/result.hpp"

#include <algorithm>
#include <concepts>
#include <map>

namespace service {
namespace {

constexpr const char* no_hooks_pending = "No hooks are pending.";

verb_answer done(std::string message)
{
    return {.messages = {std::move(message)}};
}

verb_answer answer_of(const reconcile::report& report)
{
    verb_answer answer{.exit = reconcile::exit_code(report)};
    auto& messages = answer.messages;
    auto& users = answer.users.emplace();
    for (const auto& [name, failed] : report.exposures)
        messages.push_back(failed.context);
    for (const auto& [name, sentence] : report.incidents)
        messages.push_back(policy::about("exposure " + name, sentence));
    for (const auto& user : report.users) {
        users.push_back({user.name.exposure, user.name.user, user.converged, user.sentence});
        const auto incident = report.incidents.find(user.name.exposure);
        const bool said = report.exposures.contains(user.name.exposure) ||
                          (incident != report.incidents.end() && incident->second == user.sentence);
        if (!user.converged && !said) messages.push_back(policy::about(user.name, user.sentence));
    }
    for (const auto& [name, failed] : report.credentials)
        messages.push_back(policy::about("credential " + name, failed.context));
    if (messages.empty()) messages.push_back(report.users_in_short.sentence());
    return answer;
}

std::map<policy::user_name, std::string> generations_in_use(const policy::stored_state& stored,
                                                            const std::set<policy::user_name>& names)
{
    std::map<policy::user_name, std::string> found;
    for (const auto& name : names)
        if (const auto user = stored.users.find(name); user != stored.users.end())
            found[name] = user->second.current;
    return found;
}

// "logs/siem: certificate 1f3c in use, valid until 2027-…; hooks succeeded"; empty: it has not changed.
std::string new_certificate(const reconcile::state& state, const policy::user_name& name,
                            const std::map<policy::user_name, std::string>& before)
{
    const auto user = state.stored().users.find(name);
    if (user == state.stored().users.end()) return {};
    const auto* g = user->second.find(user->second.current);
    const auto old = before.find(name);
    if (!g || !g->certificate || (old != before.end() && old->second == g->id)) return {};
    const auto* want = state.wanted(name);
    std::string text = name.text() + ": certificate " + g->certificate->serial + " in use, valid until " +
                       policy::format_utc(g->certificate->expiry());
    if (!g->deployed_at) return text + "; hooks have not succeeded yet";
    return text + (want && want->hooks.empty() ? "; no hooks configured" : "; hooks succeeded");
}

bool is_gone(const operations::caller_gone& gone)
{
    return gone && gone();
}

const operations::caller_gone has_begun;  // empty: continues even if the caller is gone

policy::failure not_begun()
{
    return {.code = policy::errc::stopping,
            .context = "not started: the command that requested it has exited",
            .kind = policy::retry::never};
}

// Checked once the operation holds the lock on the tokens.
platform::oauth_tokens::turn_begins begins(operations::caller_gone gone)
{
    return [gone = std::move(gone)]() -> policy::result<void> {
        if (is_gone(gone)) return not_begun();
        return {};
    };
}

}  // namespace

policy::origin verb::asked::from() const
{
    if (scheduled) return policy::by_schedule;
    return {.actor = policy::actor::person, .by = by};
}

const verb::of_users* users_of(const verb_request& request)
{
    const auto users = [](const auto& asked) -> const verb::of_users* {
        if constexpr (std::derived_from<std::decay_t<decltype(asked)>, verb::of_users>)
            return &asked;
        else
            return nullptr;
    };
    return std::visit(users, request);
}

const char* schema_of(const verb_request& request)
{
    return std::visit([](const auto& asked) { return asked.schema; }, request);
}

verb_answer answer_of(const policy::failure& failed)
{
    return {.exit = policy::exit_code::of(failed.code), .messages = {failed.context}};
}

io::awaitable<verb_answer> operations::perform(verb_request request, caller_gone gone)
{
    const auto* schema = schema_of(request);
    auto answer = co_await answer_to(std::move(request), std::move(gone));
    answer.schema = schema;
    co_return answer;
}

io::awaitable<verb_answer> operations::answer_to(verb_request request, caller_gone gone)
{
    if (is_gone(gone)) co_return answer_of(not_begun());
    const auto changes = [](const auto& asked) { return asked.changes_users; };
    if (std::visit(changes, request) && app_.state().stored().leaving)
        co_return answer_of(
            policy::failure{.code = policy::errc::refused,
                            .context = "this host is being decommissioned. To keep it, run: exposure-agent "
                                       "decommission --undo",
                            .kind = policy::retry::never});
    auto work = std::visit([&](auto& asked) { return run(std::move(asked), std::move(gone)); }, request);
    co_return co_await std::move(work);
}

io::awaitable<verb_answer> operations::run(verb::ping, caller_gone)
{
    co_return done("here");
}

io::awaitable<verb_answer> operations::run(verb::reconcile asked, caller_gone gone)
{
    if (auto known = reconcile::check_names(app_.state(), asked.names); !known)
        co_return answer_of(known.error());
    co_return co_await converge(std::move(asked), std::move(gone));
}

io::awaitable<verb_answer> operations::converge(verb::reconcile asked, caller_gone gone,
                                                reconcile::turn_begins begin)
{
    reconcile::turn_begins first = [&](const reconcile::state::hold& held) -> io::task<void> {
        if (is_gone(gone)) co_return not_begun();
        if (!begin) co_return policy::result<void>();
        co_return co_await begin(held);
    };
    reconcile::run_options options{.plan = {.accept_loss = asked.accept_loss},
                                   .only = std::move(asked.names),
                                   .from = asked.from(),
                                   .begin = std::move(first),
                                   .logs_failures = logs_};
    if (asked.timeout) options.timeout = *asked.timeout;
    if (auto* oauth = app_.oauth())
        (void)co_await oauth->refresh_if_due(platform::oauth_tokens::asked_by::person);
    co_await keep_configuration(app_);
    auto report = co_await reconcile::run(app_.state(), options, listener_);
    (void)co_await publish_token(app_);
    if (auto* oauth = app_.oauth();
        oauth && app_.desired().exposures.empty())  // nothing else needs the login
        if (auto token = co_await oauth->current(); !token) report.exposures.emplace("", token.error());
    if (auto ended = co_await finish_decommission(app_); !ended) report.exposures.emplace("", ended.error());
    std::shared_ptr<void> taken;
    if (options.only.empty() && guard_) taken = co_await guard_();
    if (options.only.empty() && !is_gone(gone)) {
        auto credentials = co_await keep_credentials(app_, reconcile::fetch::all);
        report.credentials = std::move(credentials.failed);
        report.reached += credentials.kept;
    }
    co_return answer_of(report);
}

io::awaitable<verb_answer> operations::run(verb::rotate asked, caller_gone gone)
{
    const auto only = asked.names;
    if (auto known = reconcile::check_names(app_.state(), only); !known) co_return answer_of(known.error());
    for (const auto& name : only)
        if (!app_.state().wanted(name))
            co_return answer_of(policy::failure{
                .code = policy::errc::usage,
                .context = name.text() + " is being removed: it is no longer in the configuration"});
    // Rotations of one user run one after another, even while one waits: each issues its own certificate.
    std::vector<io::async_lock::holder> turns;
    for (const auto& name : only) {
        auto turn = co_await rotating_.try_emplace(name, app_.executor()).first->second.acquire();
        turns.push_back(std::move(turn));
        if (is_gone(gone)) co_return answer_of(not_begun());
    }
    // Recorded under the same lock as the pass that performs it.
    const reconcile::turn_begins begin = [&](const reconcile::state::hold& held) {
        return ask(held, only, asked.retire_now, asked.from());
    };
    const auto before = generations_in_use(app_.state().stored(), only);
    verb::reconcile then{asked};
    auto answer = co_await converge(std::move(then), std::move(gone), begin);
    auto& messages = answer.messages;
    auto first = messages.begin();
    for (const auto& name : only)
        if (const auto told = new_certificate(app_.state(), name, before); !told.empty())
            first = messages.insert(first, told) + 1;
    co_return answer;
}

io::task<void> operations::ask(const reconcile::state::hold& held, std::set<policy::user_name> only,
                               bool retire_now, policy::origin from)
{
    for (const auto& name : only) {
        if (name.exposure != held.exposure() || !app_.state().stored().users.contains(name)) continue;
        policy::user_event asked = policy::event::rotation_requested{retire_now};
        if (auto saved = co_await app_.state().record(held, name, std::move(asked), from); !saved)
            co_return saved;
    }
    co_return policy::result<void>();
}

// Publishes the previous certificate with the same single rename; its hooks run like those of any new
// certificate.
io::task<void> operations::roll_back(const reconcile::state::hold& held, policy::user_name name,
                                     policy::origin from)
{
    auto& state = app_.state();
    const auto found = state.stored().users.find(name);
    if (!state.wanted(name) || found == state.stored().users.end()) co_return policy::no_way_back(name);
    const auto back = policy::roll_back(found->second);
    if (!back) co_return back.error();
    const auto g = *found->second.find(back->generation);
    const auto detail = co_await app_.api().read_user(reconcile::address_of(name.exposure, g.where),
                                                      g.where.instance_id, g.remote_id);
    if (!detail && detail.error().code != policy::errc::not_found) co_return detail.error();
    if (!detail)
        co_return policy::failure{
            .code = policy::errc::refused,
            .context =
                name.text() + ": user " + g.remote_id +
                " of the previous certificate was deleted on the platform; run: exposure-agent rotate " +
                name.text(),
            .kind = policy::retry::never};
    reconcile::executor executor(state, held, std::move(from));
    co_return co_await executor.perform(*back);
}

io::awaitable<verb_answer> operations::run(verb::rollback asked, caller_gone gone)
{
    if (auto known = reconcile::check_names(app_.state(), asked.names); !known)
        co_return answer_of(known.error());
    for (const auto& name : asked.names) {
        const auto held = co_await app_.state().take(name.exposure);
        if (is_gone(gone)) co_return answer_of(not_begun());
        if (auto back = co_await roll_back(held, name, asked.from()); !back)
            co_return answer_of(back.error());
    }
    const auto names = asked.names;
    verb::deploy hooks{asked};
    auto answer = co_await run(std::move(hooks), has_begun);
    auto& messages = answer.messages;
    if (messages.size() == 1 && messages.front() == no_hooks_pending) messages.clear();
    for (const auto& name : names)
        messages.insert(messages.begin(), name.text() + ": the previous certificate is in use again");
    co_return answer;
}

// Decides what is pending under the exposure's lock: a pass may have run it meanwhile, or an edit removed
// it. Waits for hooks that are already running.
io::awaitable<void> operations::deploy_exposure(std::string exposure, std::set<policy::user_name> only,
                                                bool force, policy::origin from, caller_gone gone,
                                                std::vector<std::string>& failed,
                                                std::vector<std::string>& passed)
{
    auto& state = app_.state();
    auto held = co_await state.take(exposure);
    const auto wanted = [&] {
        std::vector<policy::user_name> names;
        for (const auto& [name, user] : state.stored().users)
            if (name.exposure == exposure && (only.empty() || only.contains(name)) && state.wanted(name))
                names.push_back(name);
        return names;
    };
    for (;;) {
        const auto names = wanted();
        const auto running = std::ranges::find_if(names, [&](const auto& n) { return state.runs_hooks(n); });
        if (running == names.end()) break;
        co_await held.without(state.hooks_end(*running));
    }
    if (is_gone(gone)) co_return failed.push_back(not_begun().context);

    std::vector<policy::action> steps;
    std::set<policy::user_name> without_hooks;
    for (const auto& name : wanted()) {
        const auto step = policy::pending_hooks(state.user(held, name), force);
        if (!step) continue;
        if (force) {
            policy::user_event asked = policy::event::hooks_requested{};
            if (auto saved = co_await state.record(held, name, std::move(asked), from); !saved) {
                failed.push_back(saved.error().context);
                continue;
            }
        }
        if (state.wanted(name)->hooks.empty()) without_hooks.insert(name);
        steps.push_back(*step);
    }
    reconcile::hooks_listener ended = [&](const reconcile::state::hold& turn, const policy::action& step,
                                          const policy::result<void>& outcome) -> io::awaitable<void> {
        if (outcome) {
            passed.push_back(step.name.text() + (without_hooks.contains(step.name)
                                                     ? ": no hooks are configured"
                                                     : ": hooks succeeded"));
            co_return;
        }
        failed.push_back(outcome.error().context);
        if (outcome.error().code == policy::errc::stopping) co_return;
        if (logs_)
            io::log(io::severity::warning, io::events::deploy_failed,
                    {step.name.exposure, step.name.user, step.generation}, outcome.error().context);
        auto happened = reconcile::failure_of(state, step, outcome.error());
        if (auto saved = co_await state.record(turn, step.name, std::move(happened), from); !saved)
            failed.push_back(saved.error().context);
    };
    co_await reconcile::run_hooks(state, held, std::move(steps), from, std::move(ended));
}

io::awaitable<verb_answer> operations::run(verb::deploy asked, caller_gone gone)
{
    if (auto known = reconcile::check_names(app_.state(), asked.names); !known)
        co_return answer_of(known.error());
    const auto names = reconcile::exposures_of(app_.state(), asked.names);
    const std::vector<std::string> exposures(names.begin(), names.end());
    const auto from = asked.from();
    std::vector<std::string> failed;
    std::vector<std::string> messages;
    co_await io::for_each_parallel(
        exposures.size(), exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            co_await deploy_exposure(exposures[i], asked.names, asked.force, from, gone, failed, messages);
        });
    messages.insert(messages.end(), failed.begin(), failed.end());
    if (messages.empty()) messages.emplace_back(no_hooks_pending);
    co_return verb_answer{.exit = failed.empty() ? policy::exit_code::done : policy::exit_code::failed,
                          .messages = std::move(messages)};
}

io::awaitable<verb_answer> operations::run(verb::login asked, caller_gone gone)
{
    auto* oauth = app_.oauth();
    if (!oauth)
        co_return answer_of(policy::failure{.code = policy::errc::usage,
                                            .context = "identity.access_token names an external source, "
                                                       "which refreshes the token itself; no login is needed",
                                            .kind = policy::retry::never});
    if (asked.verifier) {
        auto begun = co_await oauth->begin_login(std::move(*asked.verifier), asked.state);
        if (!begun) co_return answer_of(begun.error());
        if (asked.begin) co_return verb_answer();
    }
    if (asked.refresh_token) {
        auto seeded = co_await oauth->login_with_refresh_token(std::move(*asked.refresh_token), asked.force,
                                                               begins(gone));
        if (!seeded) co_return answer_of(seeded.error());
        if (*seeded == platform::oauth_tokens::seed::known) {
            const auto standing = co_await oauth->status();
            if (standing && standing->state == platform::login_state::required)
                co_return answer_of(
                    policy::failure{.code = policy::errc::login_required,
                                    .context = "this refresh token has already been used and works only "
                                               "once. Use a new one, or run: exposure-agent login",
                                    .kind = policy::retry::never});
            co_return done("this refresh token has already been imported; nothing changed");
        }
    } else {
        auto exchanged =
            co_await oauth->login_with_code(std::move(asked.code), asked.force, asked.state, begins(gone));
        if (!exchanged) co_return answer_of(exchanged.error());
    }
    (void)co_await publish_token(app_);  // a failure is logged, and does not undo the login
    co_await reconcile::forget_login_failures(app_.state());
    const auto status = co_await oauth->status();
    if (logs_) io::log(io::severity::info, io::events::logged_in, {}, "logged in");
    co_return done("logged in" + (status && !status->subject.empty() ? " as " + status->subject : ""));
}

io::awaitable<verb_answer> operations::run(verb::logout, caller_gone gone)
{
    auto* oauth = app_.oauth();
    if (!oauth) co_return done("the access token comes from an external source; nothing to log out of");
    if (auto over = co_await oauth->logout(begins(std::move(gone))); !over) co_return answer_of(over.error());
    co_return done("logged out: the tokens were deleted from this host");
}

io::awaitable<verb_answer> operations::run(verb::import asked, caller_gone gone)
{
    if (asked.names.size() != 1)
        co_return answer_of(
            policy::failure{.code = policy::errc::usage, .context = "import requires exactly one user name"});
    verb::reconcile then{asked};
    policy::result<std::vector<std::string>> imported = policy::failure{};
    {
        const auto held = co_await app_.state().take(asked.names.begin()->exposure);
        if (is_gone(gone)) co_return answer_of(not_begun());
        imported = co_await import_pair(app_, held, std::move(asked));
    }
    if (!imported) co_return answer_of(imported.error());
    auto answer = co_await converge(std::move(then), has_begun);
    if (answer.exit == policy::exit_code::done) answer.messages.clear();
    answer.messages.insert(answer.messages.begin(), imported->begin(), imported->end());
    co_return answer;
}

// A pass that is already running creates nothing more: the executor checks for this.
io::awaitable<verb_answer> operations::run(verb::decommission asked, caller_gone)
{
    if (asked.undo) co_return co_await undo_decommission();
    auto& state = app_.state();
    auto leaving = state.stored().leaving.value_or(policy::decommission{.since = app_.clock().now()});
    leaving.at_once = leaving.at_once || asked.at_once;
    leaving.finished_at.reset();
    if (auto noted = co_await state.leave(leaving); !noted) co_return answer_of(noted.error());
    io::log(io::severity::warning, io::events::decommissioned, {},
            "this host is being decommissioned: nothing will be created or rotated");
    verb::reconcile all{asked};
    all.names.clear();
    auto answer = co_await converge(std::move(all), has_begun);
    const auto left = state.stored().users.size();
    if (left == 0 && state.stored().leaving && state.stored().leaving->finished_at)
        answer.messages = {
            "Decommissioned: no user of this host is left, and its keys and tokens are deleted."};
    else if (answer.exit == policy::exit_code::done)
        answer.messages = {policy::count(left, "user") +
                           " will be deleted after retire_after, by the service or the next "
                           "exposure-agent reconcile"};
    co_return answer;
}

// The platform has confirmed that these users are gone.
io::awaitable<verb_answer> operations::run(verb::users_deleted asked, caller_gone)
{
    auto& state = app_.state();
    for (const auto& name : asked.names) {
        const auto held = co_await state.take(name.exposure);
        const auto found = state.stored().users.find(name);
        if (found == state.stored().users.end()) continue;
        for (const auto& step : policy::without(found->second, asked.ids)) {
            policy::user_event gone = policy::event::missing{step.generation, "deleted by a person"};
            if (auto saved = co_await state.record(held, name, std::move(gone), asked.from()); !saved)
                co_return answer_of(saved.error());
            reconcile::executor executor(state, held, asked.from());
            if (auto retired = co_await executor.perform(step); !retired)
                co_return answer_of(retired.error());
        }
    }
    co_return verb_answer();
}

io::awaitable<verb_answer> operations::undo_decommission()
{
    auto& state = app_.state();
    if (!state.stored().leaving) co_return done("this host is not being decommissioned; nothing to undo");
    const bool finished = state.stored().leaving->finished_at.has_value();
    if (auto noted = co_await state.leave(std::nullopt); !noted) co_return answer_of(noted.error());
    io::log(io::severity::info, io::events::decommissioned, {}, "decommissioning of this host was undone");
    co_return done(finished
                       ? "This host was decommissioned completely. To use it again, run: exposure-agent login"
                       : "Decommissioning cancelled. The next pass manages this host's users again.");
}

// Deletes the tokens last: until then they may be needed to delete users.
io::task<void> finish_decommission(application& app)
{
    auto& state = app.state();
    if (!policy::is_decommissioned(state.stored()) || state.stored().leaving->finished_at)
        co_return policy::result<void>();
    if (auto* oauth = app.oauth())
        if (auto gone = co_await oauth->logout(); !gone) co_return gone.error();
    auto leaving = *state.stored().leaving;
    leaving.finished_at = app.clock().now();
    if (auto noted = co_await state.leave(leaving); !noted) co_return noted.error();
    io::log(io::severity::warning, io::events::decommissioned, {},
            "this host is decommissioned: no user is left, and its keys and tokens are deleted");
    co_return policy::result<void>();
}

io::awaitable<verb_answer> operations::run(verb::notify, caller_gone)
{
    notifier once(app_);
    const auto sent = co_await once.test();
    const auto said = sent ? "Notification sent. " + *sent : "notification not sent: " + sent.error().context;
    co_return verb_answer{.exit = sent ? policy::exit_code::done : policy::exit_code::of(sent.error().code),
                          .messages = {said},
                          .sent = sent.has_value(),
                          .answer = sent ? *sent : sent.error().context};
}

io::awaitable<void> keep_configuration(application& app)
{
    const auto kept = co_await app.store().keep_configuration(app.state().desired_snapshot());
    if (!kept)
        io::log(io::severity::warning, "cannot store the configuration in force: " + kept.error().context);
}

io::awaitable<reconcile::credentials_outcome> keep_credentials(application& app, reconcile::fetch which)
{
    const auto desired = app.desired();
    if (desired.credentials.empty() || app.state().stored().cloned || app.state().stored().leaving)
        co_return reconcile::credentials_outcome{};
    platform::catalog_client catalog(app.channel(), desired.catalog_url);
    const reconcile::credential_ports ports{app.clock(), catalog,     app.hooks(),
                                            app.store(), app.paths(), app.outputs()};
    co_return co_await reconcile::keep_credentials(ports, desired, which);
}

std::set<std::string> exposures_of(const reconcile::state& s, const verb_request& request)
{
    const auto* users = users_of(request);
    return users ? reconcile::exposures_of(s, users->names) : std::set<std::string>();
}

}  // namespace service
