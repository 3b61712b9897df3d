#include "config/parse.hpp"

#include "config/values.hpp"
#include "config/yaml.hpp"
#include "policy/limits.hpp"
#include "policy/naming.hpp"
#include "policy/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

// Rules between keys, and defaults that depend on other keys.
// Rules about a single key are in the tables.

namespace config {
namespace {

using policy::file_format;

constexpr std::size_t most_hooks = 32;
constexpr std::size_t generation_digits = 8;  // end of the common name (contract section 3)
constexpr const char* marker_begin = "[exposure-agent ";

// --- Sections of the agent itself

void program_rule(const layers& of, diagnostics& found)
{
    const auto argv = of.list("command");
    if (of.find("command") && (argv.empty() || argv[0]->text.empty()))
        found.error(of.where("command"), "`command` has no program; write [PROGRAM, ARGUMENT, …]");
}

void identity_rules(const layers& root, diagnostics& found)
{
    const auto identity = root.in("identity");
    if (!root.find("identity")) return;
    program_rule(identity.in("access_token"), found);
    program_rule(identity.in("publish"), found);
    if (identity.has("access_token")) {
        for (const auto* key : {"client_id", "client_secret", "redirect_url", "scope", "publish"})
            if (identity.has(key))
                found.error(
                    identity.where(key),
                    "`" + std::string(key) +
                        "` belongs to an OAuth client, but `access_token` is set; remove one of them");
        return;
    }
    for (const auto* key : {"auth_url", "client_id", "client_secret"})
        if (!identity.has(key))
            found.error(identity.where(key), "the login needs the key `" + std::string(key) +
                                                 "`, or an `access_token` instead of an OAuth client");
}

void owner_rule(const layers& root, const policy::desired_state& state, const environment& from,
                diagnostics& found)
{
    if (state.owner.value_or(from.hostname) != "localhost") return;
    found.warn(root.where("owner"),
               "owner: localhost is not unique; set `owner` to a name that no other host uses, or this host "
               "and another one will delete each other's users");
}

void metrics_rule(const layers& metrics, const policy::metrics_settings& settings, diagnostics& found)
{
    if (!settings.textfile.empty() && !settings.textfile.ends_with(".prom"))
        found.warn(metrics.where("textfile"),
                   "`textfile`: node_exporter reads only files that end with .prom");
}

// systemd passes a colon-separated list; the first directory is ours (systemd.exec, StateDirectory=).
void default_state_dir(std::string& state_dir, const environment& from, diagnostics& found)
{
    auto given = from.variable("STATE_DIRECTORY").value_or("");
    given.resize(std::min(given.find(':'), given.size()));
    if (given.empty()) return;
    if (is_path(given) && normalised(given) != "/")
        state_dir = normalised(given);
    else
        found.error({},
                    "the environment variable STATE_DIRECTORY is not an absolute path; correct it, or set "
                    "`state_dir`");
}

// --- Hooks and outputs

void hook_rules(const layers& of, diagnostics& found)
{
    const auto hooks = of.list("hooks");
    for (const auto* item : hooks) {
        const layers hook(item);
        if (!hook.find("command")) continue;
        const auto argv = hook.list("command");
        if (argv.empty())
            found.error(hook.where("command"), "`command` is empty; write [/PATH/PROGRAM, ARGUMENT, …]");
        else if (!is_path(argv[0]->text) || normalised(argv[0]->text) == "/")
            found.error(hook.where("command"),
                        "`command` must start with the absolute path of a program; write [/PATH/PROGRAM, "
                        "ARGUMENT, …]");
    }
    if (hooks.size() > most_hooks)
        found.error(of.where("hooks"), "`hooks` has more than " + std::to_string(most_hooks) +
                                           " entries; put them into one command");
}

void access_rule(const layers& output, const policy::file_access& access, diagnostics& found)
{
    if (access.mode & 0004)
        found.warn(output.where("mode"),
                   "`mode` lets everyone on this host read the secret; 0640 and a `group` are safer");
}

// Rules between the keys of a user, worded for the person who edits the file.
class user_rules {
public:
    user_rules(const layers& user, const policy::desired_user& read, const layers& exposure,
               const policy::desired_exposure& of, diagnostics& found)
        : user_(user),
          read_(read),
          exposure_(exposure),
          of_(of),
          found_(found),
          who_("user " + (of.name.empty() ? "" : of.name + "/") +
               (read.name.empty() ? "without a name" : read.name))
    {
    }

    void all() const
    {
        needs_key("consumer_group");
        needs_key("contact");
        common_name();
        description();
        access_rule(user_.in("output"), read_.output.access, found_);
        formats();
        hook_rules(user_, found_);
        verify();
    }

private:
    void wrong(place at, const std::string& text) const { found_.error(at, who_ + ": " + text); }

    void needs_key(const char* key) const
    {
        if (!user_.has(key))
            wrong(user_.where(key), "`" + std::string(key) + "` is missing; set it here or in `defaults`");
    }

    // X.509 allows 64 characters (ub-common-name).
    void common_name() const
    {
        if (read_.name.empty() || of_.tenant.empty() || !exposure_.find("variant")) return;
        const auto name =
            policy::common_name(of_.variant, of_.tenant, read_.name, std::string(generation_digits, 'x'));
        const auto limit = policy::limits::common_name_length;
        if (name.size() <= limit) return;
        wrong(user_.where("name"), "the common name " + name + " would have " + std::to_string(name.size()) +
                                       " characters, but " + std::to_string(limit) +
                                       " are allowed; shorten the name by " +
                                       std::to_string(name.size() - limit));
    }

    void description() const
    {
        if (read_.description.find(marker_begin) == std::string::npos) return;
        wrong(user_.where("description"),
              "`description` must not contain a marker of the agent, which adds its own; remove it");
    }

    void formats() const
    {
        const auto output = user_.in("output");
        const auto& formats = read_.output.formats;
        const auto at = output.where("formats");
        if (output.find("formats") && output.find("formats")->items.empty())
            found_.error(at, "`formats` is empty; write at least [pem]");
        if (formats.contains(file_format::pkcs12) && !output.has("password"))
            wrong(at, "pkcs12 needs a password; write `password: {file: PATH}` under `output`");
        if (formats.contains(file_format::java) && read_.key == policy::key_type::ed25519)
            wrong(at,
                  "Kafka's PEM store does not support ed25519 keys; use another `key`, or leave out java");
        if (exposure_.has("broker")) return;
        for (const auto kafka : {file_format::java, file_format::librdkafka})
            if (formats.contains(kafka))
                wrong(at, std::string(word_of(kafka)) +
                              " needs the broker's address; set `broker` in the exposure");
    }

    void verify() const
    {
        if (read_.verify && !exposure_.has("broker"))
            wrong(user_.where("verify"),
                  "`verify` needs a broker; set `broker` in the exposure, or use false");
    }

    const layers& user_;
    const policy::desired_user& read_;
    const layers& exposure_;
    const policy::desired_exposure& of_;
    diagnostics& found_;
    std::string who_;
};

policy::desired_user read_user(const layers& user, const layers& exposure, const policy::desired_exposure& of,
                               const std::string& state_dir, diagnostics& found)
{
    policy::desired_user read;
    fill(user_section(), &read, user);
    if (read.output.directory.empty())
        read.output.directory = state_dir + "/live/" + of.name + "/" + read.name;
    if (!user.find("verify")) read.verify = !of.broker.empty();
    user_rules(user, read, exposure, of, found).all();
    return read;
}

policy::desired_exposure read_exposure(const layers& exposure, const layers& defaults,
                                       const std::string& state_dir, diagnostics& found)
{
    policy::desired_exposure read;
    fill(exposure_section(), &read, exposure);
    if (read.topic.empty()) read.topic = std::string(policy::prefix_of(read.variant)) + "-" + read.tenant;
    if (read.group) {
        const auto group = exposure.in("business_group");
        if (!group.has("id") && !group.has("name"))
            found.error(group.where("id"),
                        "a business group needs `id` or `name`; write one or remove `business_group`");
        if (read.group->name.empty()) read.group->name = read.tenant;
    }
    const auto inherited = exposure.in("defaults").over(defaults);
    for (const auto* user : exposure.list("users"))
        read.users.push_back(read_user(layers(user).over(inherited), exposure, read, state_dir, found));
    return read;
}

// --- Rules between entries

// A directory or file that is written.
struct target {
    std::string path;  // normalised
    std::string who;   // "user logs/siem"
    place at;
    bool directory = true;
};

// Where each name was first used: using it again is an error.
class names {
public:
    names(const char* kind, const char* scope, diagnostics& found) : kind_(kind), scope_(scope), found_(found)
    {
    }

    void add(const layers& entry)
    {
        if (!entry.find("name")) return;
        const auto name = entry.text("name");
        const auto at = entry.where("name");
        const auto [known, fresh] = first_.emplace(name, at);
        if (fresh) return;
        found_.error(at, std::string(kind_) + " " + quoted(name) + " appears twice (first on line " +
                             std::to_string(known->second.line) + "); names must be unique in " + scope_);
    }

private:
    const char* kind_;
    const char* scope_;
    diagnostics& found_;
    std::map<std::string, place> first_;
};

void keep_out_of_state(const std::vector<target>& targets, const std::string& state_dir, diagnostics& found)
{
    for (const auto& one : targets) {
        const auto own = one.path == state_dir || one.path == state_dir + "/lock" ||
                         one.path == state_dir + "/live" ||
                         policy::is_within(one.path, state_dir + "/private");
        if (own || policy::is_within(state_dir, one.path))
            found.error(one.at, one.who + ": " + one.path +
                                    " is where the agent keeps its own state; use another directory");
    }
}

// In path order, with `/` before every other character, a path follows the directory that contains it.
void keep_apart(std::vector<target> targets, diagnostics& found)
{
    const auto by_path = [](const target& a, const target& b) {
        return std::lexicographical_compare(
            a.path.begin(), a.path.end(), b.path.begin(), b.path.end(),
            [](unsigned char x, unsigned char y) { return (x == '/' ? 0 : x) < (y == '/' ? 0 : y); });
    };
    std::stable_sort(targets.begin(), targets.end(), by_path);

    std::size_t outer = 0;
    for (std::size_t i = 1; i < targets.size(); ++i) {
        if (!policy::is_within(targets[i].path, targets[outer].path)) {
            outer = i;
            continue;
        }
        const auto& [first, second] = std::minmax(
            targets[outer], targets[i], [](const target& a, const target& b) { return a.at < b.at; });
        const auto same = targets[i].path == targets[outer].path;
        const auto relation = same
                                  ? " is also written by "
                                  : " and " + first.path + ", one inside the other, are written by this and ";
        found.error(second.at, second.who + ": " + second.path + relation + first.who + " (line " +
                                   std::to_string(first.at.line) + "); give each its own");
    }
}

// The tenant at the end of an authorization server's URL: https://HOST/SAAS/t/TENANT.
std::string tenant_of(const std::string& auth_url)
{
    static constexpr std::string_view before = "/t/";
    const auto at = auth_url.rfind(before);
    if (at == std::string::npos) return {};
    const auto tenant = auth_url.substr(at + before.size());
    return tenant.find('/') == std::string::npos ? tenant : "";
}

// A tenant has at most one instance per service: two exposures with the same tenant and service conflict.
class instances {
public:
    explicit instances(const policy::desired_state& state, diagnostics& found)
        : login_tenant_(state.identity.access_token ? "" : tenant_of(state.identity.auth_url)), found_(found)
    {
    }

    void add(const layers& exposure, const policy::desired_exposure& read)
    {
        if (!exposure.find("tenant")) return;
        const auto at = exposure.where("tenant");
        if (!login_tenant_.empty() && login_tenant_ != read.tenant)
            found_.warn(at, "exposure " + read.name + ": tenant " + read.tenant +
                                " is not the tenant of identity.auth_url (" + login_tenant_ +
                                "); its service user may not have access to it");
        const auto address = read_url(read.base_url);
        if (!exposure.find("base_url") || !address) return;
        auto host = address->host;
        std::transform(host.begin(), host.end(), host.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        const auto port = address->port.value_or(address->scheme == "http" ? 80 : 443);
        const auto [known, fresh] = first_.emplace(
            host + ":" + std::to_string(port) + address->path + "\n" + read.tenant, std::pair(read.name, at));
        if (fresh || known->second.first == read.name) return;
        found_.error(at, "exposure " + read.name + ": its base_url and tenant are those of exposure " +
                             known->second.first + " (line " + std::to_string(known->second.second.line) +
                             "), which is the same instance; put all users into one exposure");
    }

private:
    std::string login_tenant_;
    diagnostics& found_;
    std::map<std::string, std::pair<std::string, place>> first_;
};

target target_of(const layers& user, const policy::desired_exposure& exposure,
                 const policy::desired_user& read)
{
    const auto output = user.in("output");
    const auto at = output.find("directory") ? output.where("directory") : user.where("name");
    return {.path = read.output.directory, .who = "user " + exposure.name + "/" + read.name, .at = at};
}

void check_rules(const layers& root, const policy::desired_state& state, diagnostics& found)
{
    std::vector<target> targets;

    const auto exposures = root.list("exposures");
    instances same_instance(state, found);
    names exposure_names("exposure", "this file", found);
    for (std::size_t e = 0; e < exposures.size(); ++e) {
        const layers exposure(exposures[e]);
        exposure_names.add(exposure);
        same_instance.add(exposure, state.exposures[e]);
        const auto inherited = exposure.in("defaults").over(root.in("defaults"));
        const auto users = exposure.list("users");
        names user_names("user", "their exposure", found);
        for (std::size_t u = 0; u < users.size(); ++u) {
            const layers user(users[u]);
            user_names.add(user);
            // without both names there is no default directory, and that has already been reported
            const auto complete = exposure.find("name") && user.find("name");
            const auto full = user.over(inherited);
            if (complete || full.in("output").find("directory"))
                targets.push_back(target_of(full, state.exposures[e], state.exposures[e].users[u]));
        }
    }

    const auto credentials = root.list("credentials");
    names credential_names("credential", "this file", found);
    for (std::size_t c = 0; c < credentials.size(); ++c) {
        const layers credential(credentials[c]);
        credential_names.add(credential);
        const auto output = credential.in("output");
        if (!output.find("file")) continue;
        targets.push_back({.path = state.credentials[c].file,
                           .who = "credential " + state.credentials[c].name,
                           .at = output.where("file"),
                           .directory = false});
    }

    keep_out_of_state(targets, state.state_dir, found);
    keep_apart(std::move(targets), found);

    if (!root.has("exposures") && !root.has("credentials") && !root.in("identity").has("publish"))
        found.error(root.where("exposures"),
                    "the file has neither `exposures` nor `credentials` nor `identity.publish`; add at least "
                    "one of them");
    if (!credentials.empty() && !root.has("catalog"))
        found.error(root.where("credentials"),
                    "`credentials` need the catalog service; write `catalog: {base_url: https://HOST}`");
}

std::map<std::string, place> places_of(const layers& root)
{
    std::map<std::string, place> places;
    const auto add = [&](const std::string& name, const layers& entry, const char* directory) {
        places.emplace(name, entry.where("name"));
        const auto output = entry.in("output");
        for (const auto* key : {"owner", "group", "password"})
            places.emplace(name + " output." + key, output.where(key));
        places.emplace(name + " output.directory",
                       output.has(directory) ? output.where(directory) : entry.where("name"));
        const auto hooks = entry.list("hooks");
        for (std::size_t i = 0; i < hooks.size(); ++i)
            places.emplace(name + " hooks " + std::to_string(i), hooks[i]->at);
    };
    for (const auto* key : {"client_secret", "access_token", "publish"})
        places.emplace(std::string("identity.") + key, root.in("identity").where(key));
    places.emplace("network.proxy_auth.password", root.in("network").in("proxy_auth").where("password"));
    places.emplace("notify", root.where("notify"));
    for (const auto* node : root.list("exposures")) {
        const layers exposure(node);
        const auto inherited = exposure.in("defaults").over(root.in("defaults"));
        for (const auto* user : exposure.list("users"))
            add(exposure.text("name") + "/" + layers(user).text("name"), layers(user).over(inherited),
                "directory");
    }
    for (const auto* credential : root.list("credentials"))
        add("credential " + layers(credential).text("name"), layers(credential), "file");
    return places;
}

policy::desired_state read_state(const layers& root, const environment& from, diagnostics& found)
{
    policy::desired_state state;
    fill(root_section(), &state, root);
    if (!root.has("state_dir")) default_state_dir(state.state_dir, from, found);
    for (const auto* exposure : root.list("exposures"))
        state.exposures.push_back(
            read_exposure(layers(exposure), root.in("defaults"), state.state_dir, found));

    owner_rule(root, state, from, found);
    identity_rules(root, found);
    program_rule(root.in("notify"), found);
    metrics_rule(root.in("metrics"), state.metrics, found);
    const auto credentials = root.list("credentials");
    for (std::size_t i = 0; i < credentials.size(); ++i) {
        const layers credential(credentials[i]);
        access_rule(credential.in("output"), state.credentials[i].access, found);
        hook_rules(credential, found);
    }
    check_rules(root, state, found);
    return state;
}

// Best effort for text that is not valid YAML: reads the line with the key.
std::string state_dir_of(const std::string& text, const environment& from)
{
    diagnostics ignored;
    policy::desired_state state;
    default_state_dir(state.state_dir, from, ignored);
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\n', begin), text.size());
        auto line = text.substr(begin, end - begin);
        begin = end + 1;
        line.erase(0, line.find_first_not_of(' '));
        line.erase(line.find_last_not_of(", \r") + 1);  // when the file is JSON
        if (!line.starts_with("state_dir:") && !line.starts_with("\"state_dir\":")) continue;
        auto tree = read_tree(line, ignored);
        if (tree.what != node::kind::map) continue;
        check(tree, root_section(), from, ignored);
        fill(root_section(), &state, layers(&tree));
    }
    return state.state_dir;
}

}  // namespace

outcome parse(const std::string& text, const std::string& file_name, const environment& from)
{
    diagnostics found;
    outcome result;
    auto tree = read_tree(text, found);
    if (tree.what == node::kind::map) {
        check(tree, root_section(), from, found);
        const layers root(&tree);
        result.state = read_state(root, from, found);
        result.places = places_of(root);
        result.state_dir = result.state->state_dir;
    } else if (!tree.faulty) {
        found.error(tree.at, tree.what == node::kind::null
                                 ? "the file is empty; it needs at least `identity` and `exposures`"
                                 : "the file must be a mapping; write `KEY: VALUE` lines, as in `identity:`");
    }
    if (!result.state) result.state_dir = state_dir_of(text, from);
    result.errors = found.errors(file_name);
    result.warnings = found.warnings(file_name);
    if (!result.errors.empty()) result.state.reset();
    return result;
}

}  // namespace config
