#include "agent/cli/doctor.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/disk/files.hpp"
#include "agent/disk/state_directory.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/environment.hpp"
#include "policy/naming.hpp"
#include "policy/text.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cli {
namespace {

constexpr std::uint64_t little_space = 16ULL << 20;
constexpr auto time_to_answer = std::chrono::seconds(10);  // for systemctl
constexpr const char* service_unit = "exposure-agent.service";

std::string octal(unsigned mode)
{
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
    return text.data();
}

bool exists(const std::string& path, struct stat& facts)
{
    return ::stat(path.c_str(), &facts) == 0;
}

std::string this_user()
{
    return io::user_name(::geteuid());
}

// The path itself or its nearest ancestor that exists.
std::filesystem::path existing_parent(std::filesystem::path path)
{
    while (::access(path.c_str(), F_OK) != 0 && path.has_relative_path())
        path = path.parent_path();
    return path;
}

diagnosis check_state_directory(const policy::desired_state& desired)
{
    const std::string name = "state directory";
    const disk::paths where(desired.state_dir);
    struct stat facts {};
    const std::string directory = where.private_directory();
    if (::lstat(directory.c_str(), &facts) != 0) {
        const auto parent = existing_parent(desired.state_dir);
        if (::access(parent.c_str(), W_OK | X_OK) != 0)
            return {name, verdict::failed,
                    directory + " does not exist, and " + this_user() +
                        " cannot create it: " + parent.string() + " is read-only for it",
                    "create it, or run with sudo"};
        return {name, verdict::warning, directory + " does not exist yet",
                "nothing to do: the first login or reconcile creates it"};
    }
    if (!S_ISDIR(facts.st_mode))
        return {name, verdict::failed, directory + " is not a directory", "move it away"};
    if (facts.st_uid != ::geteuid()) {
        const auto owner = io::user_name(facts.st_uid);
        return {
            name, ::geteuid() == 0 ? verdict::warning : verdict::failed,
            directory + " belongs to " + owner + ", this is " + this_user(),
            "to check what the service can read and write, run: sudo -u " + owner + " exposure-agent doctor"};
    }
    if ((facts.st_mode & 077U) != 0)
        return {name, verdict::failed, directory + " has mode " + octal(facts.st_mode),
                "run: chmod 0700 " + directory};
    struct statvfs space {};
    if (::statvfs(directory.c_str(), &space) == 0 && space.f_bavail * space.f_frsize < little_space)
        return {name, verdict::failed, directory + " has less than 16 MiB left",
                "free some space: nothing is sent to the platform while its response cannot be stored"};
    return {name, verdict::ok, directory + " is private", ""};
}

void check_file(diagnoses& into, const std::string& name, const std::string& path, bool secret)
{
    struct stat facts {};
    if (!exists(path, facts))
        return into.push_back({name, verdict::failed,
                               path + " does not exist or cannot be reached by " + this_user(),
                               "create it, or correct the path"});
    if (!S_ISREG(facts.st_mode))
        return into.push_back({name, verdict::failed, path + " is not a file", "correct the path"});
    if (::access(path.c_str(), R_OK) != 0)
        return into.push_back({name, verdict::failed, path + " cannot be read by " + this_user(),
                               "give " + this_user() + " read access to it"});
    if (facts.st_size == 0)
        return into.push_back({name, verdict::failed, path + " is empty", "write the value into it"});
    if (secret && (facts.st_mode & 07U) != 0)
        return into.push_back({name, verdict::warning,
                               path + " is world-readable (mode " + octal(facts.st_mode) + ")",
                               "run: chmod o= " + path});
    into.push_back({name, verdict::ok, path + " can be read", ""});
}

// Why a program cannot be started; empty if it can.
std::string program_trouble(const std::string& program)
{
    struct stat facts {};
    if (!exists(program, facts)) return program + " does not exist";
    if (S_ISDIR(facts.st_mode)) return program + " is a directory";
    if (!S_ISREG(facts.st_mode)) return program + " is not a program";
    if (::access(program.c_str(), X_OK) != 0) return program + " cannot be executed by " + this_user();
    return {};
}

void check_program(diagnoses& into, const std::string& name, const std::string& program)
{
    const auto trouble = program_trouble(program);
    if (trouble.empty())
        into.push_back({name, verdict::ok, program + " can be run", ""});
    else
        into.push_back({name, verdict::failed, trouble, "install it, or correct its path and mode"});
}

void check_secret(diagnoses& into, const std::string& name,
                  const std::optional<policy::secret_source>& secret)
{
    using origin = policy::secret_source::origin;
    if (!secret) return;
    if (secret->from == origin::file) return check_file(into, name, secret->name, true);
    if (secret->from == origin::command) return check_program(into, name, secret->argv.front());
    if (secret->from == origin::environment) {
        const auto value = io::environment(secret->name);
        if (value && !value->empty())
            into.push_back({name, verdict::ok, "the variable " + secret->name + " is set", ""});
        else
            into.push_back({name, verdict::failed,
                            "the variable " + secret->name + (value ? " is empty" : " is not set") + " here",
                            "set it; the service reads /etc/exposure-agent/environment"});
        return;
    }
    const auto directory = io::environment("CREDENTIALS_DIRECTORY");
    if (directory) return check_file(into, name, *directory + "/" + secret->name, false);
    into.push_back({name, verdict::warning,
                    "the credential " + secret->name + " exists only inside the service",
                    "check that the unit has LoadCredential=" + secret->name + ":..."});
}

void check_files(diagnoses& into, const policy::desired_state& desired)
{
    if (desired.network.ca_file) check_file(into, "network.ca_file", *desired.network.ca_file, false);
    if (desired.network.crl_file) check_file(into, "network.crl_file", *desired.network.crl_file, false);
    if (desired.network.proxy_auth)
        check_secret(into, "network.proxy_auth.password", desired.network.proxy_auth->password);
    check_secret(into, "identity.client_secret", desired.identity.client_secret);
    check_secret(into, "identity.access_token", desired.identity.access_token);
    if (!desired.identity.publish_command.empty())
        check_program(into, "identity.publish", desired.identity.publish_command.front());
    if (!desired.notify.command.empty()) check_program(into, "notify", desired.notify.command.front());
    for (const auto& exposure : desired.exposures) {
        if (exposure.broker_ca_file)
            check_file(into, exposure.name + ": broker_ca_file", *exposure.broker_ca_file, false);
        for (const auto& user : exposure.users)
            if (user.output.password_file)
                check_file(into, exposure.name + "/" + user.name + ": password", *user.output.password_file,
                           true);
    }
}

// The properties of a unit; empty if there is no such unit here.
using unit_properties = std::map<std::string, std::string>;

io::awaitable<unit_properties> show_unit(io::process& process, std::string unit, std::string wanted)
{
    io::process_request request{
        .argv = {deploy::hooks_runner::find_systemctl(), "show", "--property=" + wanted, std::move(unit)},
        .environment = {},
        .input = {},
        .timeout = time_to_answer};
    unit_properties properties;
    const auto outcome = co_await process.run(std::move(request));
    if (!outcome || !outcome->ok()) co_return properties;
    std::string_view text = outcome->out;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (const auto equals = line.find('='); equals != std::string_view::npos)
            properties.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    co_return properties;
}

bool in_list(const std::string& path, std::string_view list)
{
    while (!list.empty()) {
        auto word = list.substr(0, list.find(' '));
        list.remove_prefix(std::min(list.size(), word.size() + 1));
        while (word.starts_with('-') || word.starts_with('+'))
            word.remove_prefix(1);
        if (!word.empty() && policy::is_within(path, word)) return true;
    }
    return false;
}

// Why the service cannot write files there; empty if it can, according to its unit.
std::string sandbox_trouble(const unit_properties& unit, const policy::desired_state& desired,
                            const std::string& path)
{
    const auto of = [&](const char* key) {
        const auto found = unit.find(key);
        return found == unit.end() ? std::string() : found->second;
    };
    if (of("LoadState") != "loaded") return {};
    const auto below = [&](std::initializer_list<const char*> directories) {
        return std::ranges::any_of(directories, [&](const char* d) { return policy::is_within(path, d); });
    };
    if (of("PrivateTmp") == "yes" && below({"/tmp", "/var/tmp"}))
        return path + " is in the service's private /tmp, which other programs cannot see";
    if (of("ProtectHome") == "yes" && below({"/home", "/root", "/run/user"}))
        return path + " is hidden from the service (ProtectHome=yes)";
    if (of("ProtectSystem") == "strict" && !in_list(path, of("ReadWritePaths")) &&
        !policy::is_within(path, desired.state_dir) && !below({"/tmp", "/var/tmp"}))
        return path + " is read-only for the service (ProtectSystem=strict)";
    return {};
}

enum class output { published, credential };

diagnosis check_directory(const std::string& name, const std::string& wanted, output kind)
{
    struct stat facts {};
    if (::lstat(wanted.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode))
        return {name, verdict::failed, wanted + " is a symbolic link",
                "specify the directory itself; the agent does not follow the link"};
    if (::lstat(wanted.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode))
        return {name, verdict::failed, wanted + " is not a directory", "move it away"};
    const auto current = wanted + "/current";
    if (kind == output::published && ::lstat(current.c_str(), &facts) == 0) {
        if (!S_ISLNK(facts.st_mode))
            return {name, verdict::failed, current + " already exists and is not a symbolic link",
                    "move it away"};
        // one that leads nowhere is replaced
        std::error_code ignored;
        const auto target = std::filesystem::read_symlink(current, ignored).string();
        if (!policy::is_generation_id(target) && std::filesystem::exists(current, ignored))
            return {name, verdict::failed, current + " is a symbolic link not created by exposure-agent",
                    "move it away"};
    }
    const auto nearest = existing_parent(wanted);
    if (::access(nearest.c_str(), W_OK | X_OK) != 0)
        return {name, verdict::failed, nearest.string() + " cannot be written by " + this_user(),
                "give the directory to the agent's user, or set another output.directory"};
    return {name, verdict::ok, wanted, ""};
}

void check_output(diagnoses& into, const std::string& name, const std::string& directory, output kind,
                  const policy::file_access& access, const unit_properties& unit,
                  const policy::desired_state& desired)
{
    for (const auto& [key, one] : {std::pair{"owner", policy::file_access{.owner = access.owner}},
                                   std::pair{"group", policy::file_access{.group = access.group}}})
        if (const auto known = disk::access_for(one); !known)
            into.push_back({name, verdict::failed, known.error().context,
                            std::string("create the account, or correct output.") + key});
    if (const auto trouble = sandbox_trouble(unit, desired, directory); !trouble.empty())
        into.push_back(
            {name, verdict::failed, trouble,
             std::string("add ReadWritePaths=") + directory + " with: systemctl edit " + service_unit});
    into.push_back(check_directory(name, directory, kind));
}

io::awaitable<void> check_hook(service::application& app, std::string name, policy::hook hook,
                               diagnoses& into)
{
    if (hook.what == policy::hook::kind::command) {
        check_program(into, name, hook.argv.front());
        co_return;
    }
    const auto systemctl = deploy::hooks_runner::find_systemctl();
    if (const auto trouble = program_trouble(systemctl); !trouble.empty()) {
        into.push_back({name, verdict::failed, trouble + ": no unit can be restarted", "use a command hook"});
        co_return;
    }
    const auto unit = co_await show_unit(app.process(), hook.unit, "LoadState");
    const auto state = unit.find("LoadState");
    if (state == unit.end())
        into.push_back({name, verdict::warning, "systemd returned no state for " + hook.unit,
                        "check it with: systemctl status " + hook.unit});
    else if (state->second != "loaded")
        into.push_back({name, verdict::failed, hook.unit + " is " + state->second,
                        "install the unit, or correct its name in the configuration"});
    else
        into.push_back({name, verdict::ok, hook.unit + " exists", ""});
}

// Whether something already listens there.
bool is_in_use(const std::string& host, const std::string& port)
{
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
    const io::descriptor socket(::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool taken =
        socket && ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 && errno == EADDRINUSE;
    ::freeaddrinfo(found);
    return taken;
}

void check_metrics(diagnoses& into, const policy::metrics_settings& metrics, bool daemon)
{
    const auto colon = metrics.listen.rfind(':');
    if (daemon || metrics.listen.empty() || metrics.listen.starts_with("unix:") || colon == std::string::npos)
        return;
    auto host = metrics.listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto port = metrics.listen.substr(colon + 1);
    if (is_in_use(host, port))
        into.push_back({"metrics.listen", verdict::failed, metrics.listen + " is in use by another program",
                        "choose another port, or run: ss -ltnp sport = :" + port});
    else
        into.push_back({"metrics.listen", verdict::ok, metrics.listen + " is free", ""});
}

}  // namespace

io::awaitable<void> check_host(service::application& app, bool daemon, diagnoses& into)
{
    const auto& desired = app.desired();
    into.push_back({"configuration", verdict::ok, "can be read", ""});
    into.push_back(check_state_directory(desired));
    check_files(into, desired);
    check_metrics(into, desired.metrics, daemon);
    const auto unit = co_await show_unit(app.process(), service_unit,
                                         "LoadState,ProtectSystem,ProtectHome,PrivateTmp,ReadWritePaths");
    for (const auto& exposure : desired.exposures)
        for (const auto& user : exposure.users) {
            const auto name = exposure.name + "/" + user.name;
            check_output(into, name + ": output", user.output.directory, output::published,
                         user.output.access, unit, desired);
            for (const auto& hook : user.hooks)
                co_await check_hook(app, name + ": hook", hook, into);
        }
    for (const auto& credential : desired.credentials) {
        const auto name = "credential " + credential.name;
        const auto directory = std::filesystem::path(credential.file).parent_path().string();
        check_output(into, name + ": output", directory, output::credential, credential.access, unit,
                     desired);
        struct stat facts {};
        if (exists(credential.file, facts) && !S_ISREG(facts.st_mode))
            into.push_back(
                {name + ": output", verdict::failed, credential.file + " is not a file", "move it away"});
        for (const auto& hook : credential.hooks)
            co_await check_hook(app, name + ": hook", hook, into);
    }
}

}  // namespace cli
