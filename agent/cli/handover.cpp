#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/disk/state_database.hpp"
#include "crypto/key.hpp"
#include "policy/about.hpp"
#include "policy/exit_code.hpp"
#include "policy/plan.hpp"

#include <boost/json.hpp>

#include <iostream>

// How a host comes and goes: import, decommission.

namespace cli {
namespace {

constexpr std::size_t pem_bytes = 256 << 10;

policy::failure wrong(std::string why)
{
    return {.code = policy::errc::usage, .context = std::move(why), .kind = policy::retry::never};
}

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

// The key as PKCS#8 without a password: that never leaves this process.
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

// What `decommission` will do, as far as the records of this host say.
void announce(const policy::desired_state& desired, const policy::stored_state& stored, bool at_once)
{
    std::vector<std::string> deleted;
    std::vector<std::string> kept;
    for (const auto& [name, user] : stored.users)
        for (const auto& g : user.generations)
            if (!g.remote_id.empty() && !g.missing_since)
                (g.kept ? kept : deleted).push_back("    " + name.text() + "  " + g.sent.common_name + "\n");
    std::cerr << "This decommissions the host " << stored.owner << " (" << desired.state_dir << "):\n"
              << "  from now on nothing is created or rotated, whatever the configuration names\n";
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
    const auto key = read_key(common, options);
    if (!key) return report_failure(key.error());
    const auto certificate = read_input(options.certificate);
    if (!certificate) return report_failure(certificate.error());
    return perform(common, desired, "import",
                   {{"names", boost::json::array{boost::json::string(options.name)}},
                    {"key", key->view()},
                    {"certificate", certificate->view()},
                    {"remote_id", options.remote_id},
                    {"retire", options.retire}});
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
    return perform(common, desired, "decommission", {{"at_once", options.at_once}, {"undo", options.undo}});
}

}  // namespace cli
