#include "config/load.hpp"

#include "config/check.hpp"
#include "config/expand.hpp"
#include "config/rules.hpp"
#include "config/sections.hpp"
#include "policy/limits.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace config {
namespace {

policy::desired_state read_state(const layers& root, const environment& from, findings& found)
{
    policy::desired_state state;
    state.owner = root.text("owner");
    if (state.owner.value_or(from.hostname) == "localhost")
        found.warn(root.where("owner"),
                   "owner: localhost is not unique; set `owner` to a name that no other host uses, "
                   "or this host and another one will delete each other's users");
    state.state_dir = read_state_dir(root, from, found);
    state.identity = read_identity(root, found);
    state.network = read_network(root.in("network"), found);
    state.reconcile = read_reconcile(root.in("reconcile"));
    state.notify = read_notify(root.in("notify"), found);
    state.metrics = read_metrics(root.in("metrics"), found);
    state.catalog_url = root.in("catalog").url("base_url");
    for (const auto* exposure : root.list("exposures"))
        state.exposures.push_back(
            read_exposure(layers(exposure), root.in("defaults"), state.state_dir, found));
    for (const auto* credential : root.list("credentials"))
        state.credentials.push_back(read_credential(layers(credential), found));
    return state;
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
            add(exposure.text("name", {}) + "/" + layers(user).text("name", {}), layers(user).over(inherited),
                "directory");
    }
    for (const auto* credential : root.list("credentials"))
        add("credential " + layers(credential).text("name", {}), layers(credential), "file");
    return places;
}

outcome one_mistake(const std::string& file, const std::string& text)
{
    outcome failed;
    failed.mistakes.push_back({.file = file, .text = text});
    return failed;
}

// Closes at the end of its scope.
class descriptor {
public:
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor()
    {
        if (fd_ >= 0) ::close(fd_);
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;

    int get() const { return fd_; }

private:
    int fd_;
};

// The whole file, or nothing with errno set; one byte more than allowed is enough to know that it is too
// large.
std::optional<std::string> read_all(int fd)
{
    std::string text;
    char part[16 << 10];
    while (text.size() <= policy::limits::configuration_bytes) {
        const auto got = ::read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        text.append(part, static_cast<std::size_t>(got));
    }
    return text;
}

std::string reason(int error)
{
    return std::generic_category().message(error);
}

}  // namespace

outcome parse(const std::string& text, const std::string& file_name, const environment& from)
{
    findings found;
    outcome result;
    auto tree = read_tree(text, found);
    if (tree.what == node::kind::map) {
        expand(tree, from, found);
        check(tree, root_section(), found);
        const layers root(&tree);
        result.state = read_state(root, from, found);
        result.places = places_of(root);
        check_rules(root, *result.state, found);
    } else if (!tree.faulty) {
        found.wrong(tree.at, tree.what == node::kind::null
                                 ? "the file is empty; it needs at least `identity` and `exposures`"
                                 : "the file must be a mapping; write `KEY: VALUE` lines, as in `identity:`");
    }
    result.mistakes = found.mistakes(file_name);
    result.warnings = found.warnings(file_name);
    if (!result.mistakes.empty()) result.state.reset();
    return result;
}

outcome load(const std::string& path, const environment& from)
{
    // without O_NONBLOCK a FIFO in the file's place would stop us for ever
    const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0)
        return one_mistake(path, "the file cannot be opened: " + reason(errno) + "; see --config");

    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
        return one_mistake(path, "the file cannot be examined: " + reason(errno));
    if (!S_ISREG(info.st_mode))
        return one_mistake(path, "this is no regular file; name the configuration file itself");

    const auto text = read_all(file.get());
    if (!text) return one_mistake(path, "the file cannot be read: " + reason(errno));
    if (text->size() > policy::limits::configuration_bytes)
        return one_mistake(path, "the file is larger than " +
                                     std::to_string(policy::limits::configuration_bytes >> 20) +
                                     " MiB; split it");

    auto result = parse(*text, path, from);
    result.file_owner = info.st_uid;
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        result.mistakes.insert(
            result.mistakes.begin(),
            {.file = path, .text = "its group or others may write this file; run chmod go-w on it"});
        result.state.reset();
    }
    return result;
}

}  // namespace config
