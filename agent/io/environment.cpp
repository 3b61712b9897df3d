#include "agent/io/environment.hpp"

#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <pwd.h>
#include <unistd.h>
#include <vector>

namespace io {
namespace {

constexpr std::size_t account_bytes = 64 << 10;  // per entry; larger than any in practice

// proc_pid_loginuid(5): preserved by su and similar; -1 when unset.
std::optional<uid_t> login_uid()
{
    constexpr auto unset = static_cast<uid_t>(-1);
    std::ifstream file("/proc/self/loginuid");
    uid_t uid = unset;
    if (!(file >> uid) || uid == unset) return std::nullopt;
    return uid;
}

bool exists(const std::string& name)
{
    std::vector<char> memory(account_bytes);
    passwd entry{};
    passwd* found = nullptr;
    return ::getpwnam_r(name.c_str(), &entry, memory.data(), memory.size(), &found) == 0 && found;
}

}  // namespace

std::optional<std::string> environment(const std::string& name)
{
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string short_hostname()
{
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
    const std::string full = name.data();
    const auto first = full.substr(0, full.find('.'));
    return first.empty() ? "localhost" : first;
}

std::string user_name(uid_t uid)
{
    std::vector<char> memory(account_bytes);
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(uid, &entry, memory.data(), memory.size(), &found) == 0 && found) return found->pw_name;
    return "#" + std::to_string(uid);
}

account calling_account()
{
    const auto sudo = environment("SUDO_USER");
    if (sudo && exists(*sudo)) return {.name = *sudo};
    const auto login = login_uid();
    if (login) return {.name = user_name(*login)};
    return {.name = user_name(::getuid()), .person = !environment("INVOCATION_ID")};
}

}  // namespace io
