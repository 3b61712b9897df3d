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

std::map<std::string, place> places_of_users(const layers& root)
{
    std::map<std::string, place> places;
    for (const auto* exposure : root.list("exposures"))
        for (const auto* user : layers(exposure).list("users"))
            places.emplace(layers(exposure).text("name", {}) + "/" + layers(user).text("name", {}), user->at);
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
        result.users = places_of_users(root);
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
