#include "agent/disk/ownership.hpp"

#include <charconv>
#include <cstdint>
#include <grp.h>
#include <pwd.h>
#include <vector>

namespace disk {
namespace {

constexpr std::size_t entry_bytes = 64 << 10;  // of one line of the user or group database

std::optional<std::uint32_t> number(const std::string& text)
{
    std::uint32_t value = 0;
    const auto* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end) return std::nullopt;
    return value;
}

policy::failure unknown(const char* what, const std::string& name)
{
    return {.code = policy::errc::config,
            .context = std::string("this host has no ") + what + " \"" + name +
                       "\": create it, or correct output." + (what[0] == 'u' ? "owner" : "group"),
            .kind = policy::retry::after_change};
}

}  // namespace

policy::result<access> access_for(const policy::file_access& wanted)
{
    access found{.mode = wanted.mode};
    std::vector<char> buffer(entry_bytes);
    if (wanted.owner) {
        passwd entry{};
        passwd* user = nullptr;
        getpwnam_r(wanted.owner->c_str(), &entry, buffer.data(), buffer.size(), &user);
        if (user != nullptr) found.uid = user->pw_uid;
        if (user == nullptr) found.uid = number(*wanted.owner);
        if (!found.uid) return unknown("user", *wanted.owner);
    }
    if (wanted.group) {
        group entry{};
        group* all = nullptr;
        getgrnam_r(wanted.group->c_str(), &entry, buffer.data(), buffer.size(), &all);
        if (all != nullptr) found.gid = all->gr_gid;
        if (all == nullptr) found.gid = number(*wanted.group);
        if (!found.gid) return unknown("group", *wanted.group);
    }
    return found;
}

std::string user_text(uid_t uid)
{
    std::vector<char> buffer(entry_bytes);
    passwd entry{};
    passwd* user = nullptr;
    getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &user);
    return user != nullptr ? user->pw_name : "#" + std::to_string(uid);
}

}  // namespace disk
