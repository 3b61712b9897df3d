#include "config/rules.hpp"

#include "config/addresses.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace config {
namespace {

// A directory or file that somebody writes.
struct target {
    std::string path;  // normalised
    std::string who;   // "user logs/siem"
    place at;
    bool directory = true;
};

// The place of each name's first use: a second one is a mistake.
class names {
public:
    names(const char* kind, const char* scope, findings& found) : kind_(kind), scope_(scope), found_(found) {}

    void add(const layers& entry)
    {
        const auto name = entry.text("name");
        if (!name) return;
        const auto at = entry.where("name");
        const auto [known, fresh] = first_.emplace(*name, at);
        if (fresh) return;
        found_.wrong(at, std::string(kind_) + " " + quoted(*name) + " is named twice (first in line " +
                             std::to_string(known->second.line) + "); names are unique in " + scope_);
    }

private:
    const char* kind_;
    const char* scope_;
    findings& found_;
    std::map<std::string, place> first_;
};

// True when `inner` is `outer` or lies below it.
bool within(const std::string& inner, const std::string& outer)
{
    return inner == outer || inner.starts_with(outer + "/");
}

void keep_out_of_state(const std::vector<target>& targets, const std::string& state_dir, findings& found)
{
    for (const auto& one : targets) {
        const auto own = one.path == state_dir || one.path == state_dir + "/lock" ||
                         one.path == state_dir + "/live" || within(one.path, state_dir + "/private");
        if (own || within(state_dir, one.path))
            found.wrong(one.at, one.who + ": " + one.path +
                                    " is where the agent keeps its own state; name another place");
    }
}

// Sorted by their paths, with `/` before every other character, whoever lies inside another follows it.
void keep_apart(std::vector<target> targets, findings& found)
{
    const auto by_path = [](const target& a, const target& b) {
        return std::lexicographical_compare(
            a.path.begin(), a.path.end(), b.path.begin(), b.path.end(),
            [](unsigned char x, unsigned char y) { return (x == '/' ? 0 : x) < (y == '/' ? 0 : y); });
    };
    std::stable_sort(targets.begin(), targets.end(), by_path);

    std::size_t outer = 0;
    for (std::size_t i = 1; i < targets.size(); ++i) {
        if (!within(targets[i].path, targets[outer].path)) {
            outer = i;
            continue;
        }
        const auto& [first, second] = std::minmax(
            targets[outer], targets[i], [](const target& a, const target& b) { return a.at < b.at; });
        const auto same = targets[i].path == targets[outer].path;
        const auto relation = same
                                  ? " is also written by "
                                  : " and " + first.path + ", one inside the other, are written by this and ";
        found.wrong(second.at, second.who + ": " + second.path + relation + first.who + " (line " +
                                   std::to_string(first.at.line) + "); give each a place of its own");
    }
}

// The tenant that an authorization server's address ends with: https://HOST/SAAS/t/TENANT.
std::string tenant_of(const std::string& auth_url)
{
    static constexpr std::string_view before = "/t/";
    const auto at = auth_url.rfind(before);
    if (at == std::string::npos) return {};
    const auto tenant = auth_url.substr(at + before.size());
    return tenant.find('/') == std::string::npos ? tenant : "";
}

// A tenant has at most one instance at a service, so that two exposures of both are one.
class instances {
public:
    explicit instances(const policy::desired_state& state, findings& found)
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
        found_.wrong(at, "exposure " + read.name + ": its base_url and tenant are those of exposure " +
                             known->second.first + " (line " + std::to_string(known->second.second.line) +
                             "), which is the same instance; put all users into one exposure");
    }

private:
    std::string login_tenant_;
    findings& found_;
    std::map<std::string, std::pair<std::string, place>> first_;
};

target target_of(const layers& user, const policy::desired_exposure& exposure,
                 const policy::desired_user& read)
{
    const auto output = user.in("output");
    const auto at = output.find("directory") ? output.where("directory") : user.where("name");
    return {.path = read.output.directory, .who = "user " + exposure.name + "/" + read.name, .at = at};
}

}  // namespace

void check_rules(const layers& root, const policy::desired_state& state, findings& found)
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
            // without names there is no default directory, and that was reported already
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
        found.wrong(root.where("exposures"),
                    "the file has neither `exposures` nor `credentials` nor "
                    "`identity.publish`; add what this host is for");
    if (!credentials.empty() && !root.has("catalog"))
        found.wrong(root.where("credentials"),
                    "`credentials` need the catalog service; write `catalog: {base_url: https://HOST}`");
}

}  // namespace config
