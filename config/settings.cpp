#include "config/names.hpp"
#include "config/sections.hpp"

#include <algorithm>

namespace config {

policy::network_settings read_network(const layers& network, findings& found)
{
    policy::network_settings settings;
    settings.ca_file = network.path("ca_file");
    settings.crl_file = network.path("crl_file");
    settings.timeout = network.duration("timeout", settings.timeout);
    settings.connections = network.integer("connections", settings.connections);
    if (network.find("proxy")) settings.proxy = network.url("proxy");
    if (network.find("proxy_auth")) {
        const auto login = network.in("proxy_auth");
        settings.proxy_auth = policy::proxy_credentials{.username = login.text("username", {}),
                                                        .password = read_secret(login.in("password"), found)};
    }
    return settings;
}

policy::reconcile_settings read_reconcile(const layers& reconcile)
{
    policy::reconcile_settings settings;
    settings.interval = reconcile.duration("interval", settings.interval);
    settings.prune = reconcile.boolean("prune", settings.prune);
    settings.max_deletes = reconcile.integer("max_deletes", settings.max_deletes);
    settings.max_creates_per_user = reconcile.integer("max_creates_per_user", settings.max_creates_per_user);
    settings.settle = reconcile.duration("settle", settings.settle);
    return settings;
}

policy::notify_settings read_notify(const layers& notify, findings& found)
{
    policy::notify_settings settings;
    settings.command = read_command(notify, found);
    settings.url = notify.text("url", {});
    settings.expiry_warning = notify.duration("expiry_warning", settings.expiry_warning);
    settings.repeat = notify.duration("repeat", settings.repeat);
    return settings;
}

policy::metrics_settings read_metrics(const layers& metrics, findings& found)
{
    policy::metrics_settings settings;
    settings.listen = metrics.text("listen", {});
    settings.textfile = metrics.path("textfile").value_or("");
    if (!settings.textfile.empty() && !settings.textfile.ends_with(".prom"))
        found.warn(metrics.where("textfile"),
                   "`textfile`: node_exporter reads only files that end with .prom");
    return settings;
}

// systemd gives a colon list; the first directory is ours (systemd.exec, StateDirectory=).
std::string read_state_dir(const layers& root, const environment& from, findings& found)
{
    const policy::desired_state defaults;
    if (root.has("state_dir")) return root.path("state_dir").value_or(defaults.state_dir);

    auto given = from.variable("STATE_DIRECTORY").value_or("");
    given.resize(std::min(given.find(':'), given.size()));
    if (given.empty()) return defaults.state_dir;
    if (is_path(given) && normalised(given) != "/") return normalised(given);
    found.wrong(
        {}, "the environment variable STATE_DIRECTORY is no absolute path; mend it, or write `state_dir`");
    return defaults.state_dir;
}

policy::file_access read_access(const layers& output, findings& found)
{
    policy::file_access access;
    access.owner = output.text("owner");
    access.group = output.text("group");
    if (const auto mode = output.text("mode")) access.mode = read_mode(*mode).value_or(access.mode);
    if (access.mode & 0004)
        found.warn(output.where("mode"),
                   "`mode` lets everyone on this host read the secret; 0640 and a `group` are safer");
    return access;
}

}  // namespace config
