#include "agent/cli/doctor_checks.hpp"
#include "agent/deploy/hooks_runner.hpp"
#include "agent/disk/ownership.hpp"
#include "agent/disk/paths.hpp"

#include <array>
#include <cstdio>
#include <set>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cli {
namespace {

constexpr std::uint64_t little_space = 16ULL << 20;

std::string octal(unsigned mode)
{
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
    return text.data();
}

finding check_state_directory(const policy::desired_state& desired)
{
    const disk::paths where(desired.state_dir);
    struct stat facts {};
    const std::string directory = where.private_directory();
    if (::lstat(directory.c_str(), &facts) != 0)
        return {"state directory", verdict::warning, directory + " does not exist yet",
                "nothing: the first login or reconcile creates it"};
    if (!S_ISDIR(facts.st_mode))
        return {"state directory", verdict::failed, directory + " is not a directory", "move it away"};
    if (facts.st_uid != ::geteuid()) {
        const auto owner = disk::user_text(facts.st_uid);
        return {
            "state directory", ::geteuid() == 0 ? verdict::warning : verdict::failed,
            directory + " belongs to " + owner + ", this is " + disk::user_text(::geteuid()),
            "to see what the service can read and write, run: sudo -u " + owner + " exposure-agent doctor"};
    }
    if ((facts.st_mode & 077U) != 0)
        return {"state directory", verdict::failed, directory + " has mode " + octal(facts.st_mode),
                "chmod 0700 " + directory};
    struct statvfs space {};
    if (::statvfs(directory.c_str(), &space) == 0 && space.f_bavail * space.f_frsize < little_space)
        return {"state directory", verdict::failed, directory + " has less than 16 MiB left",
                "free some space: nothing is sent to the platform while the disk cannot keep the answer"};
    return {"state directory", verdict::ok, directory + " is private", ""};
}

void check_file(std::vector<finding>& into, const std::string& name, const std::string& path)
{
    if (::access(path.c_str(), R_OK) == 0)
        into.push_back({name, verdict::ok, path + " can be read", ""});
    else
        into.push_back({name, verdict::failed, path + " cannot be read by " + disk::user_text(::geteuid()),
                        "check that it exists, and its owner and mode"});
}

void check_files(std::vector<finding>& into, const policy::desired_state& desired)
{
    if (desired.network.ca_file) check_file(into, "network.ca_file", *desired.network.ca_file);
    if (desired.network.crl_file) check_file(into, "network.crl_file", *desired.network.crl_file);
    const auto& secret = desired.identity.client_secret;
    if (secret && secret->from == policy::secret_source::origin::file)
        check_file(into, "identity.client_secret", secret->name);
    for (const auto& exposure : desired.exposures) {
        if (exposure.broker_ca_file)
            check_file(into, exposure.name + ": broker_ca_file", *exposure.broker_ca_file);
        for (const auto& user : exposure.users)
            if (user.output.password_file)
                check_file(into, exposure.name + "/" + user.name + ": password", *user.output.password_file);
    }
}

// The nearest directory that exists has to let us in.
finding check_directory(const std::string& user, std::filesystem::path directory)
{
    const auto wanted = directory.string();
    struct stat facts {};
    if (::lstat(wanted.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode))
        return {user + ": output", verdict::failed, wanted + " is a symbolic link",
                "name the directory itself: the agent does not follow it"};
    while (::access(directory.c_str(), F_OK) != 0 && directory.has_relative_path())
        directory = directory.parent_path();
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
        return {user + ": output", verdict::failed,
                directory.string() + " cannot be written by " + disk::user_text(::geteuid()),
                "give the directory to the agent's user, or set another output.directory"};
    return {user + ": output", verdict::ok, wanted, ""};
}

finding check_hook(const std::string& user, const policy::hook& hook)
{
    const auto program =
        hook.what == policy::hook::kind::command ? hook.argv.front() : deploy::hooks_runner::find_systemctl();
    if (::access(program.c_str(), X_OK) == 0)
        return {user + ": hook", verdict::ok, program + " can be run", ""};
    return {user + ": hook", verdict::failed, program + " cannot be run",
            "install it, or correct its path and mode"};
}

}  // namespace

std::vector<finding> check_host(const policy::desired_state& desired)
{
    std::vector<finding> found{{"configuration", verdict::ok, "it can be read", ""},
                               check_state_directory(desired)};
    check_files(found, desired);
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users) {
            const auto name = exposure.name + "/" + user.name;
            found.push_back(check_directory(name, user.output.directory));
            for (const auto& hook : user.hooks)
                found.push_back(check_hook(name, hook));
        }
    return found;
}

}  // namespace cli
