#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/disk/files.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/service/configuration.hpp"
#include "agent/service/daemon.hpp"
#include "crypto/key.hpp"
#include "policy/naming.hpp"
#include "policy/plan.hpp"
#include "policy/result.hpp"

#include <csignal>
#include <iostream>
#include <malloc.h>

// The verbs that change something, run by the daemon or in this process: run, reconcile, rotate,
// rollback, deploy, notify, takeover.

namespace cli {
namespace {

namespace verb = service::verb;

policy::failure wrong(std::string why)
{
    return {.code = policy::errc::usage, .context = std::move(why), .kind = policy::retry::never};
}

enum class names { optional, required };

// Passes the verb to the daemon, or runs it here. timeout: as typed; none for the default.
template <class Request>
int perform_named(const globals& common, Request request, const std::vector<std::string>& texts, names wanted,
                  const std::optional<std::string>& timeout = std::nullopt,
                  const std::string& command = Request::word)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    if (wanted == names::required)
        if (auto given = require_names(texts, command, *desired); !given)
            return report_failure(given.error());
    auto named = parse_names(texts, *desired);
    if (!named) return report_failure(named.error());
    request.names = std::move(*named);
    if (timeout) {
        const auto duration = parse_duration("--timeout", *timeout);
        if (!duration) return report_failure(duration.error());
        if (*duration <= policy::duration(0))
            return report_failure(wrong("--timeout: it must be at least 1s"));
        request.timeout = *duration;
    }
    return perform(common, desired, std::move(request));
}

// What exposure-agent-deploy.service does: users from the spool, actions from root's own configuration.
int drain(const globals& common, const deploy_options& options)
{
    if (auto trusted = deploy::refuse_unless_trusted(common.config); !trusted) {
        report_failure(trusted.error());
        return policy::exit_code::configuration;
    }
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    auto spool = deploy::spool_reader::open(options.spool_directory);
    if (!spool) return report_failure(spool.error());
    service::application app(desired);
    policy::result<deploy::drain_report> report = policy::failure{};
    app.run([](service::application& a, deploy::spool_reader& from,
               policy::result<deploy::drain_report>& into) -> io::awaitable<void> {
        into = co_await deploy::drain_spool(from, a.desired(), a.hooks());
    }(app, *spool, report));
    if (!report) return report_failure(report.error());
    for (const auto& name : report->done)
        std::cout << deploy::subject_of(name) << ": hooks succeeded\n";
    for (const auto& sentence : report->thrown_away)
        std::cerr << sentence << "\n";
    for (const auto& sentence : report->failed)
        std::cerr << sentence << "\n";
    return report->failed.empty() && report->thrown_away.empty() ? policy::exit_code::done
                                                                 : policy::exit_code::failed;
}

}  // namespace

int run_daemon(const globals& common, const run_options& options)
{
    ::mallopt(M_ARENA_MAX, 2);  // an arena for each thread that ever wrote would stay in memory
    std::signal(SIGHUP, SIG_IGN);  // until the daemon installs its handler, which reloads the configuration
    auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto spool =
        options.deploy == "unit" ? std::filesystem::path(options.spool_directory) : std::filesystem::path();
    const auto done = service::run(std::move(desired), {.config_file = common.config,
                                                        .environment = service::this_host(),
                                                        .spool = spool,
                                                        .version = EXPOSURE_AGENT_VERSION});
    return done ? policy::exit_code::done : report_failure(done.error());
}

int reconcile(const globals& common, const reconcile_options& options)
{
    bool accepted = options.accept_loss;
    if (!accepted && !common.no_input && is_terminal(stdin)) {
        const auto desired = load_configuration(common);
        if (!desired) return policy::exit_code::configuration;
        if (const auto change = owner_change_of(desired))
            accepted = confirmed(change->sentence() + ". Continue?", common.no_input);
    }
    return perform_named(common, verb::reconcile{.accept_loss = accepted}, options.names, names::optional,
                         options.timeout);
}

int rotate(const globals& common, const rotate_options& options)
{
    return perform_named(common, verb::rotate{.retire_now = options.retire_now}, options.names,
                         names::required, options.timeout);
}

int rollback(const globals& common, const std::vector<std::string>& texts)
{
    return perform_named(common, verb::rollback{}, texts, names::required);
}

int deploy(const globals& common, const deploy_options& options)
{
    if (options.spool) return drain(common, options);
    return perform_named(common, verb::deploy{.force = options.force}, options.names,
                         options.force ? names::required : names::optional, std::nullopt,
                         options.force ? "deploy --force" : "deploy");
}

int notify(const globals& common, bool test)
{
    if (!test)
        return report_failure({.code = policy::errc::usage,
                               .context =
                                   "notifications are sent automatically when a person is needed. To test "
                                   "them, run: exposure-agent notify --test"});
    return perform(common, verb::notify{});
}

int takeover(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    if (auto taken = app.take_state_directory(); !taken) return report_failure(taken.error());
    const auto stored = app.store().load();
    if (!stored) return report_failure(stored.error());
    if (!stored->cloned) {
        std::cout << "Nothing to take over: " << desired->state_dir << " belongs to this machine.\n";
        return policy::exit_code::done;
    }
    if (auto accepted = app.store().take_over(); !accepted) return report_failure(accepted.error());
    std::cout << "This machine owns " << desired->state_dir
              << " now. Stop the agent on the machine it was copied "
                 "from:\ntwo agents with the same login and owner undo each "
                 "other's work.\n";
    return policy::exit_code::done;
}

// --- Adding and removing hosts: import, decommission.

namespace {

constexpr std::size_t pem_bytes = 256 << 10;

policy::result<crypto::secret> read_input(const std::string& file)
{
    auto text = disk::read_file(std::filesystem::path(file), pem_bytes);
    if (!text) return text.error();
    if (!*text) return wrong(file + " does not exist");
    crypto::secret kept(**text);
    crypto::wipe(**text);
    return kept;
}

policy::result<crypto::secret> password_for(const globals& common, const import_options& options)
{
    if (!options.password_file.empty()) {
        auto text = read_input(options.password_file);
        if (!text) return text.error();
        auto line = text->view().substr(0, text->view().find('\n'));
        if (line.ends_with('\r')) line.remove_suffix(1);
        return crypto::secret(line);
    }
    if (common.no_input || !is_terminal(stdin) || !is_terminal(stderr))
        return wrong("import: " + options.key + " is encrypted; give its password with --password-file FILE");
    return read_hidden("Password of " + options.key);
}

// The key as PKCS#8 without a password; it never leaves this process in that form.
policy::result<crypto::secret> read_key(const globals& common, const import_options& options)
{
    auto pem = read_input(options.key);
    if (!pem) return pem.error();
    policy::result<crypto::private_key> key = policy::failure{};
    if (crypto::is_encrypted(pem->view())) {
        const auto password = password_for(common, options);
        if (!password) return password.error();
        key = crypto::private_key::from_encrypted_pem(pem->view(), *password);
    } else {
        key = crypto::private_key::from_pem(pem->view());
    }
    if (!key) return policy::with_context(options.key, key.error());
    return key->to_pem();
}

// What `decommission` will do, according to this host's records.
void announce(const policy::desired_state& desired, const policy::stored_state& stored, bool at_once)
{
    std::vector<std::string> deleted;
    std::vector<std::string> kept;
    for (const auto& [name, user] : stored.users)
        for (const auto& g : user.generations)
            if (!g.remote_id.empty() && !g.missing_since)
                (g.kept ? kept : deleted).push_back("    " + name.text() + "  " + g.sent.common_name + "\n");
    std::cerr << "This decommissions the host " << stored.owner << " (" << desired.state_dir << "):\n"
              << "  from now on nothing is created or rotated, even if the configuration still names users\n";
    if (!deleted.empty())
        std::cerr << "  " << policy::count(deleted.size(), "user") << " will be deleted on the platform"
                  << (at_once ? " at once" : ", each after its retire_after") << ":\n";
    for (const auto& line : deleted)
        std::cerr << line;
    if (!kept.empty()) std::cerr << "  imported without --retire, these stay on the platform:\n";
    for (const auto& line : kept)
        std::cerr << line;
    std::cerr << "  their published files are removed, and at the end the keys and tokens of this host\n"
              << "To stop it before that, run: exposure-agent decommission --undo\n";
}

int announce(std::shared_ptr<const policy::desired_state> desired, bool at_once)
{
    service::application app(desired);
    auto stored = app.store().load();
    if (!stored) return report_failure(stored.error());
    if (stored->cloned)
        return report_failure({.code = policy::errc::refused,
                               .context = "this state directory was copied from another machine; nothing is "
                                          "deleted until you run: exposure-agent takeover",
                               .kind = policy::retry::never});
    if (desired->owner) stored->owner = *desired->owner;
    announce(*desired, *stored, at_once);
    return policy::exit_code::done;
}

}  // namespace

int import(const globals& common, const import_options& options)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    const auto name = parse_names({options.name}, *desired);
    if (!name) return report_failure(name.error());
    auto key = read_key(common, options);
    if (!key) return report_failure(key.error());
    const auto certificate = read_input(options.certificate);
    if (!certificate) return report_failure(certificate.error());
    verb::import request;  // g++ 12 warns of the base's string when it is initialized as an aggregate
    request.names = *name;
    request.key = std::move(*key);
    request.certificate = certificate->view();
    request.remote_id = options.remote_id;
    request.retire = options.retire;
    return perform(common, desired, std::move(request));
}

int decommission(const globals& common, const decommission_options& options)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    if (options.undo && options.at_once)
        return report_failure(wrong("decommission: give --now or --undo, not both"));
    if (!options.undo) {
        const bool asks = !common.no_input && is_terminal(stdin);
        if (!options.yes && !asks)
            return report_failure(
                wrong("decommission deletes every user of this host; to confirm, add --yes"));
        if (const int code = announce(desired, options.at_once); code != policy::exit_code::done) return code;
        if (!options.yes && !confirmed("Decommission this host?", common.no_input))
            return report_failure({.code = policy::errc::refused, .context = "nothing was changed"});
    }
    return perform(common, desired, verb::decommission{.at_once = options.at_once, .undo = options.undo});
}

}  // namespace cli
