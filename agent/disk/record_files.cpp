#include "agent/disk/record_files.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/errors.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/disk/stored_json.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace disk {
namespace {

using policy::result;

constexpr std::size_t record_bytes = 4 << 20;
constexpr const char* record_name = "state.json";
constexpr std::string_view exposure_suffix = ".json";

policy::failure unusable(const std::string& file, const std::string& why, const std::string& otherwise)
{
    return {.code = policy::errc::disk,
            .context = file + " cannot be used: " + why + "; restore it from a backup, or " + otherwise,
            .kind = policy::retry::never};
}

policy::failure unusable_user(const std::string& home, const std::string& why)
{
    return unusable(home + "/" + record_name, why,
                    "move " + home + " away: then a new certificate is made and its users on the platform " +
                        "are left to you");
}

// True when a generation got as far as a certificate: then there was a record, and it is lost.
bool holds_certificates(const directory& user)
{
    const auto names = user.names();
    return !names || std::ranges::any_of(*names, [&user](const std::string& name) {
        const auto generation = policy::is_generation_id(name) ? user.enter(name) : policy::failure{};
        return generation && generation->has("certificate.pem");
    });
}

result<std::optional<policy::stored_user>> read_record(const directory& home, const policy::user_name& name)
{
    const std::string path = home.path().string();
    const auto text = read_file(home, record_name, record_bytes);
    if (!text) return unusable_user(path, text.error().context);
    if (!*text && holds_certificates(home)) return unusable_user(path, "it is missing");
    if (!*text) return std::optional<policy::stored_user>();
    auto record = stored_user_from(**text);
    if (!record) return unusable_user(path, record.error().context);
    if (record->name != name) return unusable_user(path, "it is the record of " + record->name.text());
    return std::optional(std::move(*record));
}

void look_for_keys(const directory& home, policy::stored_user& user)
{
    for (auto& generation : user.generations) {
        struct stat facts;
        const std::string key = generation.id + "/key.pem";
        generation.key_on_disk = fstatat(home.fd(), key.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
                                 S_ISREG(facts.st_mode) && facts.st_size > 0;
    }
}

void load_into(std::map<policy::user_name, policy::stored_user>& users, const directory& exposure,
               const policy::user_name& name)
{
    const auto home = exposure.enter(name.user);
    auto record =
        home ? read_record(*home, name) : unusable_user(exposure.path_of(name.user), home.error().context);
    if (!record) {
        policy::stored_user blocked;
        blocked.name = name;
        blocked.unreadable = record.error().context;
        users.emplace(name, std::move(blocked));
        return;
    }
    if (!*record) return;
    look_for_keys(*home, **record);
    users.emplace(name, std::move(**record));
}

// The directory, or none when it was never made.
result<std::optional<directory>> open_if_there(const std::filesystem::path& path)
{
    struct stat facts;
    if (lstat(path.c_str(), &facts) != 0 && errno == ENOENT) return std::optional<directory>();
    auto opened = directory::open(path);
    if (!opened) return opened.error();
    return std::optional(std::move(*opened));
}

policy::stored_exposure exposure_from(const directory& home, const std::string& file)
{
    const auto text = read_file(home, file, record_bytes);
    const std::string name = file.substr(0, file.size() - exposure_suffix.size());
    std::string why = !text ? text.error().context : !*text ? "it is missing" : "";
    if (why.empty()) {
        auto record = stored_exposure_from(**text);
        if (record && record->name == name) return std::move(*record);
        why = record ? "it is the record of " + record->name : record.error().context;
    }
    policy::stored_exposure blocked;
    blocked.name = name;
    blocked.unreadable = unusable(home.path_of(file), why,
                                  "remove it: then the instance that the platform shows is taken for ours")
                             .context;
    return blocked;
}

}  // namespace

result<void> load_users(const paths& where, std::map<policy::user_name, policy::stored_user>& users)
{
    const auto all = open_if_there(where.users());
    if (!all) return all.error();
    if (!*all) return {};
    const auto exposures = (*all)->names();
    if (!exposures) return exposures.error();
    for (const auto& exposure : *exposures) {
        const auto home = (*all)->enter(exposure);
        if (!home) return home.error();
        const auto names = home->names();
        if (!names) return names.error();
        for (const auto& user : *names)
            load_into(users, *home, {.exposure = exposure, .user = user});
    }
    return {};
}

result<void> load_exposures(const paths& where, std::map<std::string, policy::stored_exposure>& exposures)
{
    const auto home = open_if_there(where.exposures());
    if (!home) return home.error();
    if (!*home) return {};
    const auto names = (*home)->names();
    if (!names) return names.error();
    for (const auto& file : *names) {
        if (file.starts_with('.') || !file.ends_with(exposure_suffix)) continue;
        auto exposure = exposure_from(**home, file);
        auto name = exposure.name;
        exposures.emplace(std::move(name), std::move(exposure));
    }
    return {};
}

result<std::optional<policy::stored_user>> load_user(const paths& where, const policy::user_name& name)
{
    const auto home = open_if_there(where.user(name));
    if (!home) return home.error();
    if (!*home) return std::optional<policy::stored_user>();
    return read_record(**home, name);
}

bool holds_users(const paths& where)
{
    std::map<policy::user_name, policy::stored_user> users;
    return !load_users(where, users) || !users.empty();
}

}  // namespace disk
