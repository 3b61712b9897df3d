#include "agent/cli/host_diagnostics.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/environment.hpp"
#include "policy/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* service_unit = "exposure-agent.service";
constexpr const char* environment_file = "/etc/exposure-agent/environment";
constexpr std::array usual_unit_directories = {"/etc/systemd/system",     "/run/systemd/system",
                                               "/run/systemd/generator",  "/run/systemd/generator.late",
                                               "/run/systemd/transient",  "/usr/local/lib/systemd/system",
                                               "/usr/lib/systemd/system", "/lib/systemd/system"};
constexpr std::array program_directories = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                            "/usr/bin",        "/sbin",          "/bin"};

bool is_within_any(const std::string& path, std::initializer_list<const char*> directories)
{
    return std::any_of(directories.begin(), directories.end(),
                       [&](const char* directory) { return policy::is_within(path, directory); });
}

// Where systemd looks for units: $SYSTEMD_UNIT_PATH, which an empty last entry extends by the usual
// directories.
std::vector<std::string> unit_directories()
{
    std::vector<std::string> found;
    const auto named = io::environment("SYSTEMD_UNIT_PATH").value_or("");
    for (std::size_t begin = 0; begin < named.size();) {
        const auto end = std::min(named.find(':', begin), named.size());
        if (end > begin) found.push_back(named.substr(begin, end - begin));
        begin = end + 1;
    }
    if (named.empty() || named.ends_with(':'))
        found.insert(found.end(), usual_unit_directories.begin(), usual_unit_directories.end());
    return found;
}

// The file of a unit, or of its template for an instance; empty: not found.
std::string unit_file(const std::string& unit)
{
    auto source = unit;
    const auto at = unit.find('@');
    const auto dot = unit.rfind('.');
    if (at != std::string::npos && dot != std::string::npos && dot > at) source.erase(at + 1, dot - at - 1);
    for (const auto& directory : unit_directories())
        for (const auto& name : {unit, source})
            if (::access((fs::path(directory) / name).c_str(), F_OK) == 0)
                return (fs::path(directory) / name).string();
    return {};
}

// The file system sandbox and the credentials of the service's unit, drop-ins included.
struct sandbox {
    bool installed = false;
    bool private_tmp = true;
    bool protect_home = true;
    bool read_only = true;
    std::vector<std::string> writable;
    std::vector<std::string> credentials;

    void read(const fs::path& file)
    {
        std::ifstream lines(file);
        for (std::string line; std::getline(lines, line);) {
            const auto equals = line.find('=');
            if (equals == std::string::npos) continue;
            const auto key = line.substr(0, equals);
            const auto value = line.substr(equals + 1);
            const bool off = value == "no" || value == "false" || value == "off" || value == "0";
            if (key == "PrivateTmp") private_tmp = !off;
            if (key == "ProtectHome") protect_home = !off;
            if (key == "ProtectSystem") read_only = value == "strict";
            if (key == "ReadWritePaths" || key == "BindPaths" || key == "StateDirectory" ||
                key == "RuntimeDirectory")
                add_paths(key, value);
            if (key.find("Credential") != std::string::npos)
                credentials.push_back(value.substr(0, value.find(':')));
        }
    }

    void add_paths(const std::string& key, const std::string& value)
    {
        if (value.empty() && key == "ReadWritePaths") writable.clear();
        for (std::size_t begin = 0; begin < value.size();) {
            const auto end = std::min(value.find(' ', begin), value.size());
            auto word = value.substr(begin, end - begin);
            begin = end + 1;
            word.erase(0, word.find_first_not_of("-+"));
            if (key == "BindPaths") word = word.substr(word.find(':') + 1);
            if (key == "StateDirectory") word.insert(0, "/var/lib/");
            if (key == "RuntimeDirectory") word.insert(0, "/run/");
            if (word.starts_with('/')) writable.push_back(word);
        }
    }

    bool writes(const std::string& path) const
    {
        return std::any_of(writable.begin(), writable.end(),
                           [&](const std::string& directory) { return policy::is_within(path, directory); });
    }
};

sandbox service_sandbox()
{
    sandbox found;
    const auto file = unit_file(service_unit);
    found.installed = !file.empty();
    if (found.installed) found.read(file);
    std::vector<fs::path> drop_ins;
    std::error_code error;
    for (const auto& directory : unit_directories())
        for (const auto& entry :
             fs::directory_iterator(fs::path(directory) / (std::string(service_unit) + ".d"), error))
            if (entry.path().extension() == ".conf") drop_ins.push_back(entry.path());
    std::sort(drop_ins.begin(), drop_ins.end(),
              [](const fs::path& a, const fs::path& b) { return a.filename() < b.filename(); });
    for (const auto& one : drop_ins)
        found.read(one);
    return found;
}

class host {
public:
    host(const config::outcome& read, std::string file)
        : places_(read.places), desired_(*read.state), file_(std::move(file)), sandbox_(service_sandbox())
    {
    }

    host_diagnostics all()
    {
        secret("identity.client_secret", desired_.identity.client_secret);
        secret("identity.access_token", desired_.identity.access_token);
        if (desired_.network.proxy_auth)
            secret("network.proxy_auth.password", desired_.network.proxy_auth->password);
        if (!desired_.identity.publish_command.empty())
            program("identity.publish", "identity.publish", desired_.identity.publish_command.front());
        if (!desired_.notify.command.empty())
            program("notify", "notify.command", desired_.notify.command.front());
        for (const auto& exposure : desired_.exposures)
            for (const auto& user : exposure.users) {
                const auto name = exposure.name + "/" + user.name;
                output(name, user.output.directory, user.output.access);
                if (user.output.password_file)
                    secret_file(name + " output.password", *user.output.password_file);
                hooks(name, user.hooks);
            }
        for (const auto& credential : desired_.credentials) {
            const auto name = "credential " + credential.name;
            output(name, fs::path(credential.file).parent_path().string(), credential.access);
            hooks(name, credential.hooks);
        }
        for (auto* found : {&diagnostics_.mistakes, &diagnostics_.warnings})
            std::stable_sort(found->begin(), found->end(), [](const auto& a, const auto& b) {
                return std::pair(a.line, a.column) < std::pair(b.line, b.column);
            });
        return std::move(diagnostics_);
    }

private:
    config::diagnostic at(const std::string& key, std::string text) const
    {
        const auto known = places_.find(key);
        const auto place = known == places_.end() ? config::place{} : known->second;
        return {.file = file_, .line = place.line, .column = place.column, .text = std::move(text)};
    }

    void warn(const std::string& key, std::string text)
    {
        diagnostics_.warnings.push_back(at(key, std::move(text)));
    }

    // A mistake if the service is installed here.
    void refuse(const std::string& key, std::string text)
    {
        auto& into = sandbox_.installed ? diagnostics_.mistakes : diagnostics_.warnings;
        into.push_back(at(key, std::move(text)));
    }

    // No warning about files that an unprivileged account may not even stat.
    void secret_file(const std::string& key, const std::string& path)
    {
        struct stat facts {};
        if (::stat(path.c_str(), &facts) != 0) {
            if (errno == ENOENT || errno == ENOTDIR)
                warn(key, key + ": " + path +
                              " does not exist; create it with mode 0600, owned by the agent's user");
        } else if (!S_ISREG(facts.st_mode) && !S_ISFIFO(facts.st_mode)) {
            warn(key, key + ": " + path + " is not a file; specify the file that holds the secret");
        } else if (S_ISREG(facts.st_mode) && facts.st_size == 0) {
            warn(key, key + ": " + path + " is empty; write the secret into it");
        } else if ((facts.st_mode & (S_IROTH | S_IWOTH)) != 0) {
            warn(key, key + ": " + path + " is world-readable; run: chmod o= " + path);
        }
    }

    void secret(const std::string& key, const std::optional<policy::secret_source>& source)
    {
        using origin = policy::secret_source::origin;
        if (!source) return;
        switch (source->from) {
            case origin::file:
                return secret_file(key, source->name);
            case origin::command:
                return program(key, key, source->argv.front());
            case origin::environment: {
                const auto value = io::environment(source->name);
                if ((value && !value->empty()) || in_environment_file(source->name)) return;
                return warn(key, key + ": the environment variable " + source->name +
                                     (value ? " is empty" : " is not set") + "; set it in " +
                                     environment_file);
            }
            case origin::credential:
                return credential(key, source->name);
        }
    }

    void credential(const std::string& key, const std::string& name)
    {
        if (const auto directory = io::environment("CREDENTIALS_DIRECTORY"))
            return secret_file(key, *directory + "/" + name);
        if (std::find(sandbox_.credentials.begin(), sandbox_.credentials.end(), name) !=
            sandbox_.credentials.end())
            return;
        warn(key, key + ": the systemd credential " + name + " is not passed to " + service_unit +
                      "; add LoadCredential=" + name + ":PATH with: systemctl edit " + service_unit);
    }

    static bool in_environment_file(const std::string& name)
    {
        std::ifstream lines(environment_file);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with(name + "=") && line.size() > name.size() + 1) return true;
        return false;
    }

    void program(const std::string& key, const std::string& who, const std::string& name)
    {
        std::vector<std::string> candidates = {name};
        if (name.find('/') == std::string::npos) {
            candidates.clear();
            for (const auto* directory : program_directories)
                candidates.push_back(std::string(directory) + "/" + name);
        }
        struct stat facts {};
        bool exists = false;
        bool directory = false;
        for (const auto& path : candidates) {
            if (::stat(path.c_str(), &facts) != 0) {
                if (errno == EACCES) return;
                continue;
            }
            exists = true;
            if (S_ISREG(facts.st_mode) && (facts.st_mode & 0111) != 0) return;
            directory = directory || S_ISDIR(facts.st_mode);
        }
        if (directory)
            warn(key, who + ": " + name + " is a directory; specify the program in it");
        else if (!exists)
            warn(key, who + ": " + name + " does not exist; install it, or correct the path");
        else
            warn(key, who + ": " + name + " is not an executable file; run: chmod 0755 " + name);
    }

    void hooks(const std::string& name, const std::vector<policy::hook>& hooks)
    {
        for (std::size_t i = 0; i < hooks.size(); ++i) {
            const auto& hook = hooks[i];
            const auto key = name + " hooks " + std::to_string(i);
            if (hook.what == policy::hook::kind::command)
                program(key, name + ": hook", hook.argv.front());
            else if (!hook.unit.ends_with(".scope") && !hook.unit.ends_with(".slice") &&
                     unit_file(hook.unit).empty())
                warn(key, name + ": hook: this host has no unit " + hook.unit +
                              "; install it, or correct the name (systemctl list-unit-files)");
        }
    }

    void output(const std::string& name, const std::string& directory, const policy::file_access& access)
    {
        if (access.owner)
            if (const auto known =
                    disk::access_for({.owner = access.owner, .group = {}, .mode = access.mode});
                !known)
                warn(name + " output.owner", name + ": output.owner: this host has no user " + *access.owner +
                                                 "; create it, or correct the name");
        if (access.group)
            if (const auto known =
                    disk::access_for({.owner = {}, .group = access.group, .mode = access.mode});
                !known)
                warn(name + " output.group", name + ": output.group: this host has no group " +
                                                 *access.group + "; create it, or correct the name");

        const auto key = name + " output.directory";
        if (policy::is_within(directory, desired_.state_dir) || sandbox_.writes(directory)) return;
        if (sandbox_.private_tmp && is_within_any(directory, {"/tmp", "/var/tmp"}))
            return refuse(key, name + ": " + directory +
                                   " is in the service's private /tmp (PrivateTmp=yes), which other programs "
                                   "cannot see; use another directory");
        if (sandbox_.protect_home && is_within_any(directory, {"/home", "/root", "/run/user"}))
            return refuse(key, name + ": " + directory +
                                   " is hidden from the service (ProtectHome=yes); use another directory");
        if (sandbox_.installed && sandbox_.read_only)
            refuse(key, name + ": " + directory +
                            " is read-only for the service (ProtectSystem=strict); add ReadWritePaths=" +
                            directory + " with: systemctl edit " + service_unit);
    }

    const std::map<std::string, config::place>& places_;
    const policy::desired_state& desired_;
    std::string file_;
    sandbox sandbox_;
    host_diagnostics diagnostics_;
};

}  // namespace

host_diagnostics diagnose_host(const config::outcome& read, const std::string& file)
{
    return read.state ? host(read, file).all() : host_diagnostics();
}

}  // namespace cli
