#include "agent/cli/options.hpp"

#include "agent/cli/completion.hpp"
#include "agent/cli/verbs.hpp"
#include "policy/exit_code.hpp"

#include <CLI/CLI.hpp>

#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>

namespace cli {
namespace {

// One verb's words, alive until the verb has run.
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

CLI::App* add(CLI::App& parent, session& s, const char* name, const char* what, std::function<int()> verb)
{
    auto* sub = parent.add_subcommand(name, what);
    sub->fallthrough();
    // a verb's own subcommand comes first, and stands
    sub->callback([&s, verb = std::move(verb)] {
        if (!s.verb) s.verb = verb;
    });
    return sub;
}

// ... that shows something: takes -o.
CLI::App* add_shown(CLI::App& parent, session& s, const char* name, const char* what,
                    std::function<int()> verb)
{
    auto* sub = add(parent, s, name, what, std::move(verb));
    sub->add_option("-o,--output", s.output, "text for people, json for programs")
        ->check(CLI::IsMember({"text", "json"}))
        ->default_str("text");
    return sub;
}

void add_names(CLI::App* sub, std::vector<std::string>& names, bool required = false)
{
    auto* option = sub->add_option("names", names, "users, as exposure/user");
    option->type_name("NAME");
    if (required) option->required();
}

void add_lifecycle(CLI::App& app, session& s)
{
    auto u = std::make_shared<run_options>();
    auto* sub =
        add(app, s, "run", "The daemon: reconciles at start, on schedule, when the file changes, on SIGHUP",
            [&s, u] { return run_daemon(s.common, *u); });
    sub->add_option("--deploy", u->deploy,
                    "who runs the hooks: this process, or root's helper through the spool")
        ->check(CLI::IsMember({"direct", "unit"}));
    sub->add_option("--spool-directory", u->spool_directory, "where the spool is")
        ->capture_default_str()
        ->type_name("DIR");

    auto r = std::make_shared<reconcile_options>();
    sub = add_shown(app, s, "reconcile", "Reconcile until everything is converged or has failed",
                    [&s, r] { return reconcile(s.common, *r); });
    sub->add_option("--timeout", r->timeout, "give up waiting after this long, e.g. 15m");
    sub->add_flag("--accept-loss", r->accept_loss, "what vanished from the platform is gone: make it anew");
    add_names(sub, r->names);

    auto p = std::make_shared<plan_options>();
    sub = add_shown(app, s, "plan", "What reconcile would do and why, changing nothing",
                    [&s, p] { return plan(s.common, *p); });
    sub->add_flag("--detailed-exitcode", p->detailed_exitcode, "exit 2 when changes are pending");
    add_names(sub, p->names);

    auto st = std::make_shared<status_options>();
    sub = add_shown(app, s, "status", "Every user's state, from the disk alone",
                    [&s, st] { return status(s.common, *st); });
    sub->add_flag("--check", st->check, "exit 1 when something needs attention");
    sub->add_flag("--watch", st->watch, "show it again every two seconds");
    add_names(sub, st->names);

    auto name = std::make_shared<std::string>();
    sub = add_shown(app, s, "explain", "The decision about one user: facts, rule, what comes next",
                    [&s, name] { return explain(s.common, *name); });
    sub->add_option("name", *name, "exposure/user")->required()->type_name("NAME");

    auto ro = std::make_shared<rotate_options>();
    sub =
        add_shown(app, s, "rotate", "A new certificate at once", [&s, ro] { return rotate(s.common, *ro); });
    sub->add_option("--timeout", ro->timeout, "give up waiting after this long, e.g. 15m");
    sub->add_flag("--retire-now", ro->retire_now,
                  "delete the replaced user without waiting for retire_after");
    add_names(sub, ro->names, true);

    auto names = std::make_shared<std::vector<std::string>>();
    sub = add_shown(app, s, "rollback", "Put the generation before back in use",
                    [&s, names] { return rollback(s.common, *names); });
    add_names(sub, *names, true);
    add(app, s, "takeover", "Accept a state directory that was copied from another machine",
        [&s] { return takeover(s.common); });

    auto d = std::make_shared<deploy_options>();
    sub = add_shown(app, s, "deploy", "Run the hooks that are pending, at once",
                    [&s, d] { return deploy(s.common, *d); });
    sub->add_flag("--force", d->force, "run all hooks of the named users");
    sub->add_flag("--spool", d->spool, "as root's helper: take the names from the spool");
    sub->add_option("--spool-directory", d->spool_directory, "where the spool is")
        ->capture_default_str()
        ->type_name("DIR");
    add_names(sub, d->names);
}

void add_host(CLI::App& app, session& s)
{
    add_shown(app, s, "check", "Read the configuration; print every mistake",
              [&s] { return check(s.common); });
    add_shown(app, s, "doctor",
              "DNS, TLS, proxy, clock, login, permissions, hooks, broker: verdict and remedy",
              [&s] { return doctor(s.common); });
    add(app, s, "schema", "The JSON Schema of the configuration, for editors", [] { return schema(); });
    auto shell = std::make_shared<std::string>();
    add(app, s, "completion", "Shell completion",
        [&app, shell] {
            std::cout << completion_script(app, *shell);
            return policy::exit_code::done;
        })
        ->add_option("shell", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void add_identity(CLI::App& app, session& s)
{
    auto l = std::make_shared<login_options>();
    auto* sub = add(app, s, "login", "The authorization code flow: once, by a person",
                    [&s, l] { return login(s.common, *l); });
    sub->add_option("--code", l->code,
                    "the authorization code or the redirected URL; `-`: from standard input")
        ->type_name("CODE");
    sub->add_option("--refresh-token-file", l->refresh_token_file, "start from a refresh token in this file")
        ->type_name("FILE");
    sub->add_flag("--force", l->force, "replace tokens of another person");
    add(app, s, "logout", "Forget the tokens", [&s] { return logout(s.common); });
    add_shown(app, s, "token", "Age and expiry of the tokens, never the tokens",
              [&s] { return token(s.common); });
}

void add_platform(CLI::App& app, session& s)
{
    auto exposure = std::make_shared<std::string>();
    auto* sub = add_shown(app, s, "users", "The platform's users: ours, another owner's, unmanaged",
                          [&s, exposure] { return users(s.common, *exposure); });
    sub->require_subcommand(0, 1);
    sub->add_option("exposure", *exposure, "of this exposure only")->type_name("EXPOSURE");
    auto del = std::make_shared<users_delete_options>();
    auto* erase = add_shown(*sub, s, "delete", "Delete users on the platform",
                            [&s, del] { return users_delete(s.common, *del); });
    erase->add_option("exposure", del->exposure)->required()->type_name("EXPOSURE");
    erase->add_option("ids", del->ids)->required()->type_name("ID");
    erase->add_flag("--yes", del->yes, "do not ask");
    add_shown(app, s, "instances", "The service instance of every exposure",
              [&s] { return instances(s.common); });
}

void add_catalog(CLI::App& app, session& s)
{
    auto c = std::make_shared<catalog_options>();
    auto* catalog =
        app.add_subcommand("catalog", "Templates and provisioning requests of the catalog service");
    catalog->fallthrough()->require_subcommand(1);
    auto* sub = add_shown(*catalog, s, "template", "The request template of a catalog item",
                          [&s, c] { return catalog_template(s.common, *c); });
    sub->add_option("item", c->item)->required()->type_name("ITEM");
    sub->add_option("--business-group", c->business_group)->required()->type_name("ID");
    sub = add_shown(*catalog, s, "request", "Submit a provisioning request",
                    [&s, c] { return catalog_request(s.common, *c); });
    sub->add_option("item", c->item)->required()->type_name("ITEM");
    sub->add_option("--business-group", c->business_group)->required()->type_name("ID");
    sub->add_option("--data", c->data, "the request's JSON; - is standard input")->type_name("FILE");
    sub->add_option("--set", c->set, "a value over the fetched template")->type_name("KEY=VALUE");
    sub->add_flag("--wait", c->wait, "until the request has ended");
    sub->add_option("--timeout", c->timeout, "with --wait, e.g. 2h");
    sub = add_shown(*catalog, s, "show", "The state of a request",
                    [&s, c] { return catalog_show(s.common, *c); });
    sub->add_option("request", c->request_id)->required()->type_name("REQUEST_ID");
    sub->add_flag("--wait", c->wait, "until the request has ended");
    sub->add_option("--timeout", c->timeout, "with --wait, e.g. 2h");

    auto a = std::make_shared<action_options>();
    auto* action = app.add_subcommand("action", "Forms and values of day-2 actions");
    action->fallthrough()->require_subcommand(1);
    sub =
        add_shown(*action, s, "form", "The form of an action", [&s, a] { return action_form(s.common, *a); });
    sub->add_option("resource", a->resource)->required()->type_name("RESOURCE");
    sub->add_option("action", a->action)->required()->type_name("ACTION");
    sub = add_shown(*action, s, "values", "Compute elements and print their values",
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
    app.add_option("--log-level", s.level, "what is logged to standard error")
        ->check(CLI::IsMember(keys_of(levels)))
        ->capture_default_str();
    app.add_option("--log-format", s.format)->check(CLI::IsMember(keys_of(formats)))->capture_default_str();
    app.add_flag("--no-input", s.common.no_input, "never ask");
    app.set_version_flag("--version", "exposure-agent " EXPOSURE_AGENT_VERSION);
    app.require_subcommand(1);
}

}  // namespace

int main(int argc, char** argv)
{
    session s;
    CLI::App app("Keeps Kafka client certificates of an event exposure service fresh, unattended.",
                 "exposure-agent");
    add_globals(app, s);
    add_lifecycle(app, s);
    add_host(app, s);
    add_identity(app, s);
    add_platform(app, s);
    add_catalog(app, s);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? policy::exit_code::done : policy::exit_code::usage;
    }
    s.common.json = s.output == "json";
    s.common.log_level = levels.at(s.level);
    s.common.log_format = formats.at(s.format);
    io::configure_log(s.common.log_level, s.common.log_format);
    try {
        return s.verb();
    } catch (const std::exception& bug) {
        std::cerr << "exposure-agent: internal error: " << bug.what() << "\n";
        return policy::exit_code::failed;
    }
}

}  // namespace cli
