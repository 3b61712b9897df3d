#include "config/names.hpp"
#include "config/sections.hpp"

#include <array>

namespace config {
namespace {

using origin = policy::secret_source::origin;

std::vector<std::string> texts_of(const std::vector<const node*>& items)
{
    std::vector<std::string> texts;
    for (const auto* item : items)
        texts.push_back(item->text);
    return texts;
}

}  // namespace

policy::secret_source read_secret(const layers& source, findings& found)
{
    if (const auto path = source.path("file")) return {.from = origin::file, .name = *path, .argv = {}};
    if (const auto name = source.text("env")) return {.from = origin::environment, .name = *name, .argv = {}};
    if (const auto name = source.text("credential"))
        return {.from = origin::credential, .name = *name, .argv = {}};

    return {.from = origin::command, .name = {}, .argv = read_command(source, found)};
}

std::vector<std::string> read_command(const layers& of, findings& found)
{
    auto argv = texts_of(of.list("command"));
    if (of.find("command") && (argv.empty() || argv[0].empty()))
        found.wrong(of.where("command"), "`command` names no program; write [PROGRAM, ARGUMENT, …]");
    return argv;
}

policy::identity_settings read_identity(const layers& root, findings& found)
{
    static constexpr std::array client_keys = {"auth_url", "client_id", "client_secret"};

    policy::identity_settings settings;
    const auto identity = root.in("identity");
    if (!root.find("identity")) return settings;

    settings.auth_url = identity.url("auth_url");
    settings.client_id = identity.text("client_id", {});
    if (identity.find("client_secret"))
        settings.client_secret = read_secret(identity.in("client_secret"), found);
    settings.redirect_url = identity.text("redirect_url", settings.redirect_url);
    settings.refresh_every = identity.duration("refresh_every", settings.refresh_every);
    settings.scope = identity.text("scope", {});
    settings.publish_command = read_command(identity.in("publish"), found);
    if (identity.find("access_token"))
        settings.access_token = read_secret(identity.in("access_token"), found);

    if (identity.has("access_token")) {
        for (const auto* key : {"client_id", "client_secret", "redirect_url", "scope", "publish"})
            if (identity.has(key))
                found.wrong(identity.where(key),
                            "`" + std::string(key) +
                                "` belongs to an OAuth client, but an access_token is given; "
                                "remove one of them");
        return settings;
    }
    for (const auto* key : client_keys)
        if (!identity.has(key))
            found.wrong(identity.where(key), "the login needs the key `" + std::string(key) +
                                                 "`, or an `access_token` instead of an OAuth client");
    return settings;
}

}  // namespace config
