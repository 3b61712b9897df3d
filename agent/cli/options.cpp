#include "agent/cli/options.hpp"

#include "agent/cli/output.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/io/log.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"
#include "policy/words.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace cli {
namespace {

// Runs first in main: keeps the memory of this process, which holds keys and tokens, out of core dumps and
// away from debuggers of the same user; a closed pipe or a full quota becomes an error value, not a signal.
void harden_process() noexcept
{
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    crypto::wipe_memory_freed_by_openssl();
#ifndef __SANITIZE_ADDRESS__  // its leak check traces the process itself
    ::prctl(PR_SET_DUMPABLE, 0);
#endif
}

// The parsed command line; lives until the verb has run.
struct session {
    globals common;
    std::string output = "text";
    std::string level = "info";
    std::string format = "auto";
    std::function<int()> verb;
};

const std::map<std::string, io::severity> levels = {{"error", io::severity::error},
                                                    {"warn", io::severity::warning},
                                                    {"info", io::severity::info},
                                                    {"debug", io::severity::debug}};
const std::map<std::string, io::log_format> formats = {{"auto", io::log_format::automatic},
                                                       {"text", io::log_format::text},
                                                       {"json", io::log_format::json},
                                                       {"journal", io::log_format::journal}};

template <class Words>
std::vector<std::string> keys_of(const Words& words)
{
    std::vector<std::string> keys;
    for (const auto& [key, value] : words)
        keys.push_back(key);
    return keys;
}

CLI::Validator one_of(const std::vector<std::string>& words)
{
    std::string list;
    for (const auto& word : words)
        list += (list.empty() ? "" : "|") + word;
    return CLI::Validator(
        [words, list](std::string& given) {
            if (std::ranges::find(words, given) != words.end()) return std::string();
            return "'" + given + "' is not one of " + list;
        },
        list);
}

CLI::App* add(CLI::App& parent, session& s, const char* name, const char* what, std::function<int()> verb)
{
    auto* sub = parent.add_subcommand(name, what);
    sub->fallthrough();
    // a verb's own subcommand is called first and takes precedence
    sub->callback([&s, verb = std::move(verb)] {
        if (!s.verb) s.verb = verb;
    });
    return sub;
}

// The same for a verb that prints something: adds -o.
CLI::App* add_shown(CLI::App& parent, session& s, const char* name, const char* what,
                    std::function<int()> verb, const std::vector<std::string>& more = {})
{
    auto* sub = add(parent, s, name, what, std::move(verb));
    std::vector<std::string> words{"text", "json"};
    words.insert(words.end(), more.begin(), more.end());
    sub->add_option("-o,--output", s.output, "output format")->check(one_of(words))->default_str("text");
    return sub;
}

void add_names(CLI::App* sub, std::vector<std::string>& names)
{
    sub->add_option("names", names, "users; default: all of them")->type_name("EXPOSURE/USER");
}

void add_required_names(CLI::App* sub, std::vector<std::string>& names)
{
    sub->add_option("names", names, "users")->type_name("EXPOSURE/USER");
}

void add_timeout(CLI::App* sub, std::optional<std::string>& timeout)
{
    sub->add_option("--timeout", timeout, "give up after this long, e.g. 90s or 15m")->type_name("DURATION");
}

void add_lifecycle(CLI::App& app, session& s)
{
    auto u = std::make_shared<run_options>();
    auto* sub = add(app, s, "run",
                    "Run as a daemon: reconcile at start, on schedule, when the file changes, on SIGHUP",
                    [&s, u] { return run_daemon(s.common, *u); });
    sub->add_option("--deploy", u->deploy,
                    "who runs the hooks: this process, or exposure-agent-deploy.service")
        ->check(one_of({"direct", "unit"}));
    sub->add_option("--spool-directory", u->spool_directory, "the spool directory of exposure-agent-deploy")
        ->capture_default_str()
        ->type_name("DIR");

    auto r = std::make_shared<reconcile_options>();
    sub = add_shown(app, s, "reconcile",
                    "Issue, rotate, publish and delete until everything matches the configuration",
                    [&s, r] { return reconcile(s.common, *r); });
    add_timeout(sub, r->timeout);
    sub->add_flag("--accept-loss", r->accept_loss, "recreate what is missing on the platform");
    add_names(sub, r->names);

    auto p = std::make_shared<plan_options>();
    sub = add_shown(app, s, "plan", "Show what reconcile would do and why; changes nothing",
                    [&s, p] { return plan(s.common, *p); });
    sub->add_flag("--detailed-exitcode", p->detailed_exitcode, "exit 2 if changes are pending");
    add_names(sub, p->names);

    auto st = std::make_shared<status_options>();
    sub = add_shown(app, s, "status", "Show the state of every user; uses no network",
                    [&s, st] { return status(s.common, *st); }, {"wide"});
    sub->add_flag("--check", st->check, "exit 1 if something needs attention");
    sub->add_flag("--watch", st->watch, "refresh every 2 s");
    sub->add_option("--due", st->due, "only what expires or rotates within this time, e.g. 30d")
        ->type_name("DURATION");
    add_names(sub, st->names);

    auto name = std::make_shared<std::string>();
    sub = add_shown(app, s, "explain", "Show the decision about one user: facts, rule, what happens next",
                    [&s, name] { return explain(s.common, *name); });
    sub->add_option("name", *name, "the user")->required()->type_name("EXPOSURE/USER");

    auto hi = std::make_shared<history_options>();
    sub = add_shown(app, s, "history", "Show what happened to every user, when, and who asked for it",
                    [&s, hi] { return history(s.common, *hi); });
    sub->add_option("--since", hi->since, "only what happened within this time, or since this date")
        ->type_name("DURATION");
    add_names(sub, hi->names);

    auto fo = std::make_shared<forecast_options>();
    sub = add_shown(app, s, "forecast", "Show upcoming rotations, deletions, refreshes and logins",
                    [&s, fo] { return forecast(s.common, *fo); }, {"ics", "svg"});
    sub->add_option("--for", fo->time, "how far ahead, e.g. 90d; default: 1y")->type_name("DURATION");
    add_names(sub, fo->names);

    auto ro = std::make_shared<rotate_options>();
    sub = add_shown(app, s, "rotate", "Issue a new certificate now",
                    [&s, ro] { return rotate(s.common, *ro); });
    add_timeout(sub, ro->timeout);
    sub->add_flag("--retire-now", ro->retire_now,
                  "delete the replaced user without waiting for retire_after");
    add_required_names(sub, ro->names);

    auto names = std::make_shared<std::vector<std::string>>();
    sub = add_shown(app, s, "rollback", "Return to the previous certificate",
                    [&s, names] { return rollback(s.common, *names); });
    add_required_names(sub, *names);
    auto im = std::make_shared<import_options>();
    sub = add_shown(app, s, "import",
                    "Take over a user that was created manually, with its key and certificate",
                    [&s, im] { return import(s.common, *im); });
    sub->add_option("name", im->name, "the configured user that it becomes")
        ->required()
        ->type_name("EXPOSURE/USER");
    sub->add_option("--key", im->key, "file with its private key (PEM)")->required()->type_name("FILE");
    sub->add_option("--certificate", im->certificate, "file with its certificate (PEM or DER)")
        ->required()
        ->type_name("FILE");
    sub->add_option("--remote-id", im->remote_id,
                    "the user's id on the platform, if it cannot be found by its certificate")
        ->type_name("ID");
    sub->add_option("--password-file", im->password_file, "file with the password of an encrypted key")
        ->type_name("FILE");
    sub->add_flag("--retire", im->retire, "delete it on the platform after its first rotation");

    auto dc = std::make_shared<decommission_options>();
    sub = add_shown(app, s, "decommission",
                    "Delete everything that belongs to this host: users, files, keys, tokens",
                    [&s, dc] { return decommission(s.common, *dc); });
    sub->add_flag("--now", dc->at_once, "without waiting for retire_after");
    sub->add_flag("--undo", dc->undo, "cancel a decommissioning in progress");
    sub->add_flag("--yes", dc->yes, "do not ask for confirmation");

    auto test = std::make_shared<bool>(false);
    add_shown(app, s, "notify", "Send a test notification and show what came back", [&s, test] {
        return notify(s.common, *test);
    })->add_flag("--test", *test, "send it now");
    add(app, s, "takeover", "Accept a state directory that was copied from another machine",
        [&s] { return takeover(s.common); });

    auto d = std::make_shared<deploy_options>();
    sub = add_shown(app, s, "deploy", "Run pending hooks now", [&s, d] { return deploy(s.common, *d); });
    sub->add_flag("--force", d->force, "run all hooks of the named users");
    sub->add_flag("--spool", d->spool,
                  "take the users from the spool; used by exposure-agent-deploy.service");
    sub->add_option("--spool-directory", d->spool_directory, "the spool directory of exposure-agent-deploy")
        ->capture_default_str()
        ->type_name("DIR");
    add_names(sub, d->names);
}

void add_host(CLI::App& app, session& s)
{
    add_shown(app, s, "check", "Check the configuration and print every mistake",
              [&s] { return check(s.common); });
    auto i = std::make_shared<init_options>();
    auto* first = add(app, s, "init", "Write the first configuration, interactively or from options",
                      [&s, i] { return init(s.common, *i); });
    first->add_option("--output", i->output, "where to write it; default: the file of --config")
        ->type_name("FILE");
    first->add_flag("--force", i->force, "replace an existing file");
    const auto text = [first](const char* name, std::string& value, const char* what, const char* type) {
        first->add_option(name, value, what)->type_name(type);
    };
    text("--auth-url", i->auth_url, "address of the login server", "URL");
    text("--client-id", i->client_id, "OAuth client id", "ID");
    text("--client-secret-file", i->client_secret_file, "file with the OAuth client secret", "FILE");
    text("--redirect-url", i->redirect_url, "redirect address of the OAuth client", "URL");
    text("--tenant", i->tenant, "the tenant", "TENANT");
    text("--variant", i->variant, "log, health or lifecycle", "VARIANT");
    text("--base-url", i->base_url, "address of the event exposure service", "URL");
    text("--exposure", i->exposure, "name for the exposure", "NAME");
    text("--user", i->user, "name for the consumer", "NAME");
    text("--consumer-group", i->consumer_group, "its Kafka consumer group", "GROUP");
    text("--contact", i->contact, "e-mail address of the team", "ADDRESS");
    text("--ca-file", i->ca_file, "CA file to verify the servers with", "FILE");
    text("--broker", i->broker, "Kafka broker", "HOST:PORT");
    add_shown(app, s, "doctor",
              "Check DNS, TLS, proxy, clock, login, permissions, hooks and broker; suggest remedies",
              [&s] { return doctor(s.common); });
    add(app, s, "schema", "Print the JSON Schema of the configuration, for editors", [] { return schema(); });
    auto shell = std::make_shared<std::string>();
    add(app, s, "completion", "Print a shell completion script",
        [shell] {
            std::cout << completion_script(*shell);
            return policy::exit_code::done;
        })
        ->add_option("shell", *shell, "the shell")
        ->required()
        ->type_name("SHELL")
        ->check(one_of({"bash", "zsh", "fish"}));
}

void add_identity(CLI::App& app, session& s)
{
    auto l = std::make_shared<login_options>();
    auto* sub = add(app, s, "login", "Log in: once, in a browser", [&s, l] { return login(s.common, *l); });
    sub->add_option("--code", l->code,
                    "the authorization code or the redirected URL; `-`: from standard input")
        ->type_name("CODE");
    sub->add_option("--refresh-token-file", l->refresh_token_file,
                    "log in with the refresh token in this file")
        ->type_name("FILE");
    sub->add_flag("--force", l->force, "replace the tokens of another account");
    sub->add_flag("--no-pkce", l->no_pkce, "send no code challenge, for servers that refuse it");
    add(app, s, "logout", "Delete the tokens from this host", [&s] { return logout(s.common); });
    add_shown(app, s, "token", "Show the age and expiry of the tokens, never the tokens",
              [&s] { return token(s.common); });
}

void add_platform(CLI::App& app, session& s)
{
    auto exposure = std::make_shared<std::string>();
    auto* sub = add_shown(app, s, "users", "List the platform's users, managed by this agent or not",
                          [&s, exposure] { return users(s.common, *exposure); });
    sub->require_subcommand(0, 1);
    sub->add_option("exposure", *exposure, "only this exposure")->type_name("EXPOSURE");
    auto del = std::make_shared<users_delete_options>();
    auto* erase = add_shown(*sub, s, "delete", "Delete users on the platform",
                            [&s, del] { return users_delete(s.common, *del); });
    erase->add_option("exposure", del->exposure, "the exposure; optional with --orphans")
        ->type_name("EXPOSURE");
    erase->add_option("ids", del->ids, "ids of users, as `users` shows them")->type_name("ID");
    erase->add_flag("--yes", del->yes, "do not ask for confirmation");
    erase->add_flag("--force", del->force, "also delete a user that is in use on this host");
    erase->add_flag("--orphans", del->orphans, "delete this agent's unused users");
    auto one = std::make_shared<users_show_options>();
    auto* show = add_shown(*sub, s, "show", "Show everything the platform knows about one user",
                           [&s, one] { return users_show(s.common, *one); });
    show->add_option("exposure", one->exposure, "the exposure")->required()->type_name("EXPOSURE");
    show->add_option("id", one->id, "the user's id, as `users` shows it")->required()->type_name("ID");
    show->add_flag("--certificate", one->certificate, "with its certificate, as PEM");
    auto of = std::make_shared<std::string>();
    add_shown(app, s, "instances", "Show the service instance of every exposure",
              [&s, of] { return instances(s.common, *of); })
        ->add_option("exposure", *of, "only this exposure")
        ->type_name("EXPOSURE");
}

void add_catalog(CLI::App& app, session& s)
{
    auto c = std::make_shared<catalog_options>();
    auto* catalog =
        app.add_subcommand("catalog", "Use the catalog service: templates and provisioning requests");
    catalog->fallthrough()->require_subcommand(1);
    auto* sub = add_shown(*catalog, s, "template", "Show the request template of a catalog item",
                          [&s, c] { return catalog_template(s.common, *c); });
    sub->add_option("item", c->item)->required()->type_name("ITEM");
    sub->add_option("--business-group", c->business_group)->required()->type_name("ID");
    sub = add_shown(*catalog, s, "request", "Submit a provisioning request",
                    [&s, c] { return catalog_request(s.common, *c); });
    sub->add_option("item", c->item)->required()->type_name("ITEM");
    sub->add_option("--business-group", c->business_group)->required()->type_name("ID");
    sub->add_option("--data", c->data, "the request's JSON; - is standard input")->type_name("FILE");
    sub->add_option("--set", c->set, "set a value of the template")->type_name("KEY=VALUE");
    sub->add_flag("--wait", c->wait, "wait until the request has finished");
    sub->add_option("--timeout", c->timeout, "with --wait, e.g. 2h");
    sub = add_shown(*catalog, s, "show", "Show the state of a request",
                    [&s, c] { return catalog_show(s.common, *c); });
    sub->add_option("request", c->request_id)->required()->type_name("REQUEST_ID");
    sub->add_flag("--wait", c->wait, "wait until the request has finished");
    sub->add_option("--timeout", c->timeout, "with --wait, e.g. 2h");

    auto a = std::make_shared<action_options>();
    auto* action = app.add_subcommand("action", "Use day-2 actions: forms and values");
    action->fallthrough()->require_subcommand(1);
    sub = add_shown(*action, s, "form", "Show the form of an action",
                    [&s, a] { return action_form(s.common, *a); });
    sub->add_option("resource", a->resource)->required()->type_name("RESOURCE");
    sub->add_option("action", a->action)->required()->type_name("ACTION");
    sub = add_shown(*action, s, "values", "Compute elements and print their values, secrets included",
                    [&s, a] { return action_values(s.common, *a); });
    sub->add_option("resource", a->resource)->required()->type_name("RESOURCE");
    sub->add_option("action", a->action)->required()->type_name("ACTION");
    sub->add_option("elements", a->elements)->required()->type_name("ELEMENT");
}

void add_globals(CLI::App& app, session& s)
{
    app.add_option("-c,--config", s.common.config, "the configuration file")
        ->capture_default_str()
        ->type_name("FILE");
    app.add_option("--log-level", s.level, "minimum severity to log")
        ->check(one_of(keys_of(levels)))
        ->capture_default_str();
    app.add_option("--log-format", s.format, "format of the log on standard error")
        ->check(one_of(keys_of(formats)))
        ->capture_default_str();
    app.add_flag("--no-input", s.common.no_input, "never ask questions");
    app.set_version_flag("--version", "exposure-agent " EXPOSURE_AGENT_VERSION);
    app.require_subcommand(1);
}

// The verb being parsed when an error occurred: "users delete".
const CLI::App* innermost(const CLI::App& app, std::string& path)
{
    const auto chosen = app.get_subcommands();
    if (chosen.empty()) return &app;
    path += " " + chosen.back()->get_name();
    return innermost(*chosen.back(), path);
}

std::vector<std::string> verbs_of(const CLI::App& app)
{
    std::vector<std::string> names;
    for (const auto* sub : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); }))
        names.push_back(sub->get_name());
    return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known)
{
    const auto meant = policy::nearest(word, known);
    return meant.empty() ? "" : "; did you mean " + meant + "?";
}

std::string unexpected(const CLI::App& root, const CLI::App& verb)
{
    const auto words = root.remaining(true);
    const std::string word = words.empty() ? "" : words.front();
    if (word.starts_with("-")) {
        std::vector<std::string> flags;
        for (const auto* app : {&verb, &root})
            for (const auto* option : app->get_options())
                for (const auto& name : option->get_lnames())
                    flags.push_back("--" + name);
        return "unknown option '" + word + "'" + did_you_mean(word.substr(0, word.find('=')), flags);
    }
    const auto verbs = verbs_of(verb);
    const bool wants_verb = &verb == &root || verb.get_require_subcommand_min() > 0;
    return (wants_verb ? "unknown command '" : "unexpected argument '") + word + "'" +
           did_you_mean(word, verbs);
}

std::string missing(const CLI::App& verb, const CLI::Error& e)
{
    for (const auto* option : verb.get_options())
        if (option->get_required() && option->count() == 0) {
            auto type = option->get_type_name();  // with its values: SHELL:bash|zsh|fish
            if (const auto colon = type.find(':'); colon != std::string::npos)
                type = type.substr(0, colon) + " (" + type.substr(colon + 1) + ")";
            return (option->get_positional() ? "" : option->get_name() + " ") + type + " is missing";
        }
    if (verb.get_require_subcommand_min() == 0 || !verb.get_subcommands().empty()) return e.what();
    std::string list;
    for (const auto& name : verbs_of(verb))
        list += (list.empty() ? "" : ", ") + name;
    return "a command is missing: " + list;
}

int report_usage(const CLI::App& app, const CLI::ParseError& e)
{
    std::string path = "exposure-agent";
    const auto* verb = innermost(app, path);
    const std::string kind = e.get_name();
    std::string what = e.what();
    if (!app.remaining(true).empty())
        what = unexpected(app, *verb);
    else if (kind == "ArgumentMismatch")
        what = what.substr(0, what.find(':')) +
               (what.find("missing") == std::string::npos ? " was given more than once" : " needs a value");
    else if (kind == "RequiredError")
        what = missing(*verb, e);
    std::cerr << path << ": " << io::printable(what) << "\nSee: " << path << " --help\n";
    return policy::exit_code::usage;
}

}  // namespace

int main(int argc, char** argv)
{
    harden_process();
    session s;
    CLI::App app("Keeps Kafka client certificates of an event exposure service fresh, unattended.",
                 "exposure-agent");
    add_globals(app, s);
    add_lifecycle(app, s);
    add_host(app, s);
    add_identity(app, s);
    add_platform(app, s);
    add_catalog(app, s);
    if (argc > 1 && argv[1] == std::string_view(complete_verb)) {
        print_candidates(app, {argv + 2, argv + argc});
        return policy::exit_code::done;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& e) {  // --help, --version
        app.exit(e);
        return flush_output() ? policy::exit_code::done : policy::exit_code::failed;
    } catch (const CLI::ParseError& e) {
        return report_usage(app, e);
    }
    s.common.json = s.output == "json";
    s.common.output = s.output;
    s.common.log_level = levels.at(s.level);
    s.common.log_format = formats.at(s.format);
    io::configure_log(s.common.log_level, s.common.log_format);
    try {
        const int code = s.verb();
        return flush_output() || code != policy::exit_code::done ? code : policy::exit_code::failed;
    } catch (const std::exception& bug) {
        std::cerr << "exposure-agent: internal error: " << bug.what() << "\n";
        return policy::exit_code::failed;
    }
}

}  // namespace cli
