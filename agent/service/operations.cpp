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

#include <boost/json.hpp>

#include <algorithm>
#include <map>

namespace service {
namespace {

constexpr const char* no_hooks_pending = "No hooks are pending.";

using boost::json::array;
using boost::json::object;

std::set<policy::user_name> names_of(const object& arguments)
{
    std::set<policy::user_name> names;
    const auto* given = arguments.if_contains("names");
    if (!given || !given->is_array()) return names;
    for (const auto& text : given->as_array()) {
        const std::string name(text.as_string());
        const auto slash = name.find('/');
        names.insert({name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1)});
    }
    return names;
}

bool flag(const object& arguments, std::string_view key)
{
    const auto* given = arguments.if_contains(key);
    return given && given->is_bool() && given->as_bool();
}

std::string text(const object& arguments, std::string_view key)
{
    const auto* given = arguments.if_contains(key);
    return given && given->is_string() ? std::string(given->as_string()) : "";
}

object done(std::string message)
{
    return {{"exit", 0}, {"messages", array{boost::json::string(message)}}};
}

// "2 of 2 users up to date, 1 being removed"
std::string up_to_date(const std::vector<reconcile::user_report>& users)
{
    const auto removing =
        static_cast<std::size_t>(std::ranges::count_if(users, &reconcile::user_report::removing));
    const auto staying = users.size() - removing;
    return std::to_string(staying) + " of " + policy::count(staying, "user") + " up to date" +
           (removing == 0 ? "" : ", " + std::to_string(removing) + " being removed");
}

object answer_of(const reconcile::report& report)
{
    array messages;
    array users;
    for (const auto& [name, failed] : report.exposures)
        messages.emplace_back(failed.context);
    for (const auto& [name, sentence] : report.incidents)
        messages.emplace_back(policy::about("exposure " + name, sentence));
    for (const auto& user : report.users) {
        users.push_back(object{{"exposure", user.name.exposure},
                               {"name", user.name.user},
                               {"converged", user.converged},
                               {"sentence", user.sentence}});
        if (!user.converged && !report.exposures.contains(user.name.exposure))
            messages.emplace_back(policy::about(user.name, user.sentence));
    }
    for (const auto& [name, failed] : report.credentials)
        messages.emplace_back(policy::about("credential " + name, failed.context));
    if (messages.empty()) messages.emplace_back(up_to_date(report.users));
    return {{"schema", "exposure-agent.reconcile/v1"},
            {"exit", reconcile::exit_code(report)},
            {"users", std::move(users)},
            {"messages", std::move(messages)}};
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

// "logs/siem: certificate 1f3c in use, valid until 2027-…; hooks succeeded"; empty: it is the one as before.
std::string new_certificate(const reconcile::world& world, const policy::user_name& name,
                            const std::map<policy::user_name, std::string>& before)
{
    const auto user = world.stored().users.find(name);
    if (user == world.stored().users.end()) return {};
    const auto* g = user->second.find(user->second.current);
    const auto old = before.find(name);
    if (!g || !g->certificate || (old != before.end() && old->second == g->id)) return {};
    const auto* want = world.wanted(name);
    std::string text = name.text() + ": certificate " + g->certificate->serial + " in use, valid until " +
                       policy::format_utc(g->certificate->expiry());
    if (!g->deployed_at) return text + "; hooks have not succeeded yet";
    return text + (want && want->hooks.empty() ? "; no hooks configured" : "; hooks succeeded");
}

bool is_gone(const operations::caller_gone& gone)
{
    return gone && gone();
}

const operations::caller_gone has_begun;  // and goes on, whoever is gone

policy::failure not_begun()
{
    return {.code = policy::errc::stopping,
            .context = "not begun: the command that asked for it has ended",
            .kind = policy::retry::never};
}

// Asked when the tokens' turn has come.
platform::oauth_tokens::turn_begins begins(operations::caller_gone gone)
{
    return [gone = std::move(gone)]() -> policy::result<void> {
        if (is_gone(gone)) return not_begun();
        return {};
    };
}

// Who called the verb: a person, or a timer's unit.
policy::origin caller_of(const object& arguments)
{
    if (flag(arguments, "scheduled")) return policy::by_schedule;
    return {.actor = policy::actor::person, .by = text(arguments, "by")};
}

}  // namespace

io::awaitable<object> operations::perform(std::string verb, object arguments, caller_gone gone)
{
    if (is_gone(gone)) co_return service::answer_of(not_begun());
    const bool changes_a_user =
        verb == "rotate" || verb == "rollback" || verb == "deploy" || verb == "import";
    if (changes_a_user && app_.world().stored().leaving)
        co_return service::answer_of(
            policy::failure{.code = policy::errc::refused,
                            .context = "this host is being decommissioned. To keep it, run: exposure-agent "
                                       "decommission --undo",
                            .kind = policy::retry::never});
    if (verb == "import") co_return co_await import(std::move(arguments), std::move(gone));
    if (verb == "decommission") co_return co_await decommission(std::move(arguments));
    if (verb == "reconcile") co_return co_await reconcile(std::move(arguments), std::move(gone));
    if (verb == "rotate") co_return co_await rotate(std::move(arguments), std::move(gone));
    if (verb == "rollback") co_return co_await rollback(std::move(arguments), std::move(gone));
    if (verb == "deploy") co_return co_await deploy(std::move(arguments), std::move(gone));
    if (verb == "login") co_return co_await login(std::move(arguments), std::move(gone));
    if (verb == "logout") co_return co_await logout(std::move(gone));
    if (verb == "notify") co_return co_await test_notification();
    if (verb == "ping") co_return done("here");
    co_return service::answer_of(
        policy::failure{.code = policy::errc::usage, .context = "unknown operation " + verb});
}

io::awaitable<object> operations::reconcile(object arguments, caller_gone gone)
{
    const auto only = names_of(arguments);
    if (auto known = reconcile::check_names(app_.world(), only); !known)
        co_return service::answer_of(known.error());
    co_return co_await converge(only, std::move(arguments), std::move(gone));
}

io::awaitable<object> operations::converge(std::set<policy::user_name> only, object arguments,
                                           caller_gone gone, reconcile::turn_begins begin)
{
    reconcile::turn_begins first = [&](const reconcile::world::hold& held) -> io::task<void> {
        if (is_gone(gone)) co_return not_begun();
        if (!begin) co_return policy::result<void>();
        co_return co_await begin(held);
    };
    reconcile::run_options options{.plan = {.accept_loss = flag(arguments, "accept_loss")},
                                   .only = std::move(only),
                                   .from = caller_of(arguments),
                                   .begin = std::move(first)};
    if (const auto* timeout = arguments.if_contains("timeout"); timeout && timeout->is_int64())
        options.timeout = policy::duration(timeout->as_int64());
    if (auto* oauth = app_.oauth())
        (void)co_await oauth->refresh_if_due(platform::oauth_tokens::asked_by::person);
    co_await keep_configuration(app_);
    auto report = co_await reconcile::run(app_.world(), options, listener_);
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

io::awaitable<object> operations::rotate(object arguments, caller_gone gone)
{
    const auto only = names_of(arguments);
    if (auto known = reconcile::check_names(app_.world(), only); !known)
        co_return service::answer_of(known.error());
    for (const auto& name : only)
        if (!app_.world().wanted(name))
            co_return service::answer_of(policy::failure{
                .code = policy::errc::usage,
                .context = name.text() + " is being removed: the configuration does not name it any more"});
    // One after the other, also while the first one waits: each gets a certificate of its own.
    std::vector<io::async_lock::holder> turns;
    for (const auto& name : only) {
        auto turn = co_await rotating_.try_emplace(name, app_.executor()).first->second.acquire();
        turns.push_back(std::move(turn));
        if (is_gone(gone)) co_return service::answer_of(not_begun());
    }
    // Asked for in the turn that performs it.
    const bool retire_now = flag(arguments, "retire_now");
    const auto from = caller_of(arguments);
    const reconcile::turn_begins begin = [&](const reconcile::world::hold& held) {
        return ask(held, only, retire_now, from);
    };
    const auto before = generations_in_use(app_.world().stored(), only);
    auto answer = co_await converge(only, std::move(arguments), std::move(gone), begin);
    auto& messages = answer["messages"].as_array();
    auto first = messages.begin();
    for (const auto& name : only)
        if (const auto told = new_certificate(app_.world(), name, before); !told.empty())
            first = messages.insert(first, boost::json::value(told)) + 1;
    co_return answer;
}

io::task<void> operations::ask(const reconcile::world::hold& held, std::set<policy::user_name> only,
                               bool retire_now, policy::origin from)
{
    for (const auto& name : only) {
        if (name.exposure != held.exposure() || !app_.world().stored().users.contains(name)) continue;
        policy::user_event asked = policy::event::rotation_requested{retire_now};
        if (auto saved = co_await app_.world().record(held, name, std::move(asked), from); !saved)
            co_return saved;
    }
    co_return policy::result<void>();
}

// The previous certificate comes back by the same one rename; its hooks run like those of any new
// certificate.
io::task<void> operations::roll_back(const reconcile::world::hold& held, policy::user_name name,
                                     policy::origin from)
{
    auto& world = app_.world();
    const auto found = world.stored().users.find(name);
    if (!world.wanted(name) || found == world.stored().users.end()) co_return policy::no_way_back(name);
    const auto back = policy::roll_back(found->second);
    if (!back) co_return back.error();
    const auto g = *found->second.find(back->generation);
    const auto detail = co_await app_.api().read_user(reconcile::address_of(name.exposure, g.where),
                                                      g.where.instance_id, g.remote_id);
    if (!detail && detail.error().code != policy::errc::not_found) co_return detail.error();
    if (!detail)
        co_return policy::failure{.code = policy::errc::refused,
                                  .context = name.text() + ": user " + g.remote_id +
                                             " of the previous certificate is deleted on the platform; run: "
                                             "exposure-agent rotate " +
                                             name.text(),
                                  .kind = policy::retry::never};
    reconcile::executor executor(world, held, std::move(from));
    co_return co_await executor.perform(*back);
}

io::awaitable<object> operations::rollback(object arguments, caller_gone gone)
{
    const auto only = names_of(arguments);
    for (const auto& name : only) {
        const auto held = co_await app_.world().take(name.exposure);
        if (is_gone(gone)) co_return service::answer_of(not_begun());
        if (auto back = co_await roll_back(held, name, caller_of(arguments)); !back)
            co_return service::answer_of(back.error());
    }
    auto answer = co_await deploy(std::move(arguments), has_begun);
    auto& messages = answer["messages"].as_array();
    if (messages.size() == 1 && messages.front() == no_hooks_pending) messages.clear();
    for (const auto& name : only)
        messages.insert(messages.begin(),
                        boost::json::value(name.text() + ": the previous certificate is in use again"));
    co_return answer;
}

// What is pending is looked at when the exposure's turn has come: a pass may have done it meanwhile, or an
// edit removed it. Hooks that run already have ended by then.
io::awaitable<void> operations::deploy_exposure(std::string exposure, std::set<policy::user_name> only,
                                                bool force, policy::origin from, caller_gone gone,
                                                std::vector<std::string>& failed,
                                                std::vector<std::string>& passed)
{
    auto& world = app_.world();
    auto held = co_await world.take(exposure);
    const auto wanted = [&] {
        std::vector<policy::user_name> names;
        for (const auto& [name, user] : world.stored().users)
            if (name.exposure == exposure && (only.empty() || only.contains(name)) && world.wanted(name))
                names.push_back(name);
        return names;
    };
    for (;;) {
        const auto names = wanted();
        const auto running = std::ranges::find_if(names, [&](const auto& n) { return world.runs_hooks(n); });
        if (running == names.end()) break;
        co_await held.without(world.hooks_end(*running));
    }
    if (is_gone(gone)) co_return failed.push_back(not_begun().context);

    std::vector<policy::action> steps;
    std::set<policy::user_name> without_hooks;
    for (const auto& name : wanted()) {
        const auto step = policy::pending_hooks(world.user(held, name), force);
        if (!step) continue;
        if (force) {
            policy::user_event asked = policy::event::hooks_requested{};
            if (auto saved = co_await world.record(held, name, std::move(asked), from); !saved) {
                failed.push_back(saved.error().context);
                continue;
            }
        }
        if (world.wanted(name)->hooks.empty()) without_hooks.insert(name);
        steps.push_back(*step);
    }
    reconcile::hooks_listener ended = [&](const reconcile::world::hold& turn, const policy::action& step,
                                          const policy::result<void>& outcome) -> io::awaitable<void> {
        if (outcome) {
            passed.push_back(step.name.text() + (without_hooks.contains(step.name)
                                                     ? ": no hooks are configured"
                                                     : ": hooks succeeded"));
            co_return;
        }
        failed.push_back(outcome.error().context);
        if (outcome.error().code == policy::errc::stopping) co_return;
        auto happened = reconcile::failure_of(world, step, outcome.error());
        if (auto saved = co_await world.record(turn, step.name, std::move(happened), from); !saved)
            failed.push_back(saved.error().context);
    };
    co_await reconcile::run_hooks(world, held, std::move(steps), from, std::move(ended));
}

io::awaitable<object> operations::deploy(object arguments, caller_gone gone)
{
    const auto only = names_of(arguments);
    if (auto known = reconcile::check_names(app_.world(), only); !known)
        co_return service::answer_of(known.error());
    const auto names = exposures_of(app_.world(), "deploy", arguments);
    const std::vector<std::string> exposures(names.begin(), names.end());
    const bool force = flag(arguments, "force");
    const auto from = caller_of(arguments);
    std::vector<std::string> failed;
    std::vector<std::string> messages;
    co_await io::for_each_parallel(
        exposures.size(), exposures.size(), [&](std::size_t i) -> io::awaitable<void> {
            co_await deploy_exposure(exposures[i], only, force, from, gone, failed, messages);
        });
    messages.insert(messages.end(), failed.begin(), failed.end());
    if (messages.empty()) messages.emplace_back(no_hooks_pending);
    co_return object{{"exit", failed.empty() ? 0 : 1}, {"messages", boost::json::value_from(messages)}};
}

io::awaitable<object> operations::login(object arguments, caller_gone gone)
{
    auto* oauth = app_.oauth();
    if (!oauth)
        co_return service::answer_of(
            policy::failure{.code = policy::errc::usage,
                            .context = "identity.access_token names an external source: it keeps the token "
                                       "fresh, there is nothing to log in to",
                            .kind = policy::retry::never});
    const bool force = flag(arguments, "force");
    if (arguments.contains("verifier")) {
        auto begun = co_await oauth->begin_login(crypto::secret(text(arguments, "verifier")),
                                                 text(arguments, "state"));
        if (!begun) co_return service::answer_of(begun.error());
        if (flag(arguments, "begin")) co_return object{{"exit", 0}, {"messages", array{}}};
    }
    if (arguments.contains("refresh_token")) {
        auto seeded = co_await oauth->login_with_refresh_token(
            crypto::secret(text(arguments, "refresh_token")), force, begins(gone));
        if (!seeded) co_return service::answer_of(seeded.error());
        if (*seeded == platform::oauth_tokens::seed::known) {
            const auto standing = co_await oauth->status();
            if (standing && standing->state == platform::login_state::required)
                co_return service::answer_of(policy::failure{
                    .code = policy::errc::login_required,
                    .context =
                        "this refresh token was sent before, and works only once. Use a new one, or run: "
                        "exposure-agent login",
                    .kind = policy::retry::never});
            co_return done("this refresh token was imported before; nothing changed");
        }
    } else {
        auto exchanged = co_await oauth->login_with_code(crypto::secret(text(arguments, "code")), force,
                                                         text(arguments, "state"), begins(gone));
        if (!exchanged) co_return service::answer_of(exchanged.error());
    }
    (void)co_await publish_token(app_);  // a failure is logged, and does not undo the login
    const auto status = co_await oauth->status();
    io::log(io::severity::info, io::events::logged_in, {}, "logged in");
    co_return done("logged in" + (status && !status->subject.empty() ? " as " + status->subject : ""));
}

io::awaitable<object> operations::logout(caller_gone gone)
{
    auto* oauth = app_.oauth();
    if (!oauth) co_return done("the access token comes from an external source: there is nothing to forget");
    if (auto over = co_await oauth->logout(begins(std::move(gone))); !over)
        co_return service::answer_of(over.error());
    co_return done("logged out: the tokens are forgotten on this host");
}

io::awaitable<object> operations::import(object arguments, caller_gone gone)
{
    const auto names = names_of(arguments);
    if (names.size() != 1)
        co_return service::answer_of(
            policy::failure{.code = policy::errc::usage, .context = "import takes the name of one user"});
    const auto name = *names.begin();
    import_request request{.key_pem = crypto::secret(text(arguments, "key")),
                           .certificate = text(arguments, "certificate"),
                           .remote_id = text(arguments, "remote_id"),
                           .retire = flag(arguments, "retire")};
    policy::result<std::vector<std::string>> imported = policy::failure{};
    {
        const auto held = co_await app_.world().take(name.exposure);
        if (is_gone(gone)) co_return service::answer_of(not_begun());
        imported = co_await import_pair(app_, held, name, std::move(request), caller_of(arguments));
    }
    if (!imported) co_return service::answer_of(imported.error());
    auto answer = co_await converge(names, std::move(arguments), has_begun);
    array messages;
    for (const auto& message : *imported)
        messages.emplace_back(message);
    if (answer.at("exit").as_int64() != policy::exit_code::done)
        for (const auto& message : answer.at("messages").as_array())
            messages.push_back(message);
    answer["messages"] = std::move(messages);
    co_return answer;
}

// A pass that began before creates nothing any more: the executor asks.
io::awaitable<object> operations::decommission(object arguments)
{
    if (flag(arguments, "undo")) co_return co_await undo_decommission();
    auto& world = app_.world();
    auto leaving = world.stored().leaving.value_or(policy::decommission{.since = app_.clock().now()});
    leaving.at_once = leaving.at_once || flag(arguments, "at_once");
    leaving.finished_at.reset();
    if (auto noted = co_await world.leave(leaving); !noted) co_return service::answer_of(noted.error());
    io::log(io::severity::warning, io::events::decommissioned, {},
            "this host is being decommissioned: nothing is created or rotated any more");
    const std::set<policy::user_name> all;
    auto answer = co_await converge(all, std::move(arguments), has_begun);
    const auto left = world.stored().users.size();
    auto& messages = answer["messages"].as_array();
    if (left == 0 && world.stored().leaving && world.stored().leaving->finished_at)
        messages =
            array{"Decommissioned: no user of this host is left, and its keys and tokens are deleted."};
    else if (answer.at("exit").as_int64() == policy::exit_code::done)
        messages = array{boost::json::string(policy::count(left, "user") +
                                             " will be deleted after retire_after; the service, or the next "
                                             "`reconcile`, goes on with it")};
    co_return answer;
}

io::awaitable<object> operations::undo_decommission()
{
    auto& world = app_.world();
    if (!world.stored().leaving) co_return done("this host is not being decommissioned; nothing to undo");
    const bool finished = world.stored().leaving->finished_at.has_value();
    if (auto noted = co_await world.leave(std::nullopt); !noted) co_return service::answer_of(noted.error());
    io::log(io::severity::info, io::events::decommissioned, {}, "this host is not decommissioned any more");
    co_return done(finished
                       ? "This host was decommissioned completely. To use it again, run: exposure-agent login"
                       : "This host stays: the next pass works on its users again.");
}

// Tokens go last: until then some user may still have to be deleted with them.
io::task<void> finish_decommission(application& app)
{
    auto& world = app.world();
    if (!policy::is_decommissioned(world.stored()) || world.stored().leaving->finished_at)
        co_return policy::result<void>();
    if (auto* oauth = app.oauth())
        if (auto gone = co_await oauth->logout(); !gone) co_return gone.error();
    auto leaving = *world.stored().leaving;
    leaving.finished_at = app.clock().now();
    if (auto noted = co_await world.leave(leaving); !noted) co_return noted.error();
    io::log(io::severity::warning, io::events::decommissioned, {},
            "this host is decommissioned: no user is left, and its keys and tokens are deleted");
    co_return policy::result<void>();
}

io::awaitable<object> operations::test_notification()
{
    notifier once(app_);
    const auto sent = co_await once.test();
    const auto said = sent ? "Notification sent. " + *sent : "notification not sent: " + sent.error().context;
    auto answer = sent ? done(said) : service::answer_of(sent.error());
    answer["schema"] = "exposure-agent.notify-test/v1";
    answer["sent"] = sent.has_value();
    answer["answer"] = sent ? *sent : sent.error().context;
    answer["messages"] = array{boost::json::string(said)};
    co_return answer;
}

io::awaitable<void> keep_configuration(application& app)
{
    const auto kept = co_await app.store().keep_configuration(app.world().desired_snapshot());
    if (!kept)
        io::log(io::severity::warning, "the configuration in force was not stored: " + kept.error().context);
}

io::awaitable<reconcile::credentials_outcome> keep_credentials(application& app, reconcile::fetch which)
{
    const auto desired = app.desired();
    if (desired.credentials.empty() || app.world().stored().cloned || app.world().stored().leaving)
        co_return reconcile::credentials_outcome{};
    platform::catalog_client catalog(app.channel(), desired.catalog_url);
    const reconcile::credential_ports ports{app.clock(), catalog,     app.hooks(),
                                            app.store(), app.paths(), app.outputs()};
    co_return co_await reconcile::keep_credentials(ports, desired, which);
}

std::set<std::string> exposures_of(const reconcile::world& w, const std::string& verb,
                                   const object& arguments)
{
    if (verb == "login" || verb == "logout" || verb == "notify") return {};
    const auto* names = arguments.if_contains("names");
    if (!names || !names->is_array() || names->as_array().empty()) return reconcile::all_exposures(w);
    std::set<std::string> exposures;
    for (const auto& name : names->as_array()) {
        const std::string text(name.as_string());
        exposures.insert(text.substr(0, text.find('/')));
    }
    return exposures;
}

object answer_of(const policy::failure& failed)
{
    return {{"exit", policy::exit_code::of(failed.code)},
            {"messages", array{boost::json::string(failed.context)}}};
}

}  // namespace service
