#include "tests/simulation/power.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t page = 4096;

// Bypasses the interposed functions.
int open_raw(int where, const std::string& path, int flags)
{
    return static_cast<int>(::syscall(SYS_openat, where, path.c_str(), flags | O_CLOEXEC, 0600));
}

std::string content_of(int fd)
{
    struct stat facts {};
    ::fstat(fd, &facts);
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    const auto size = ::syscall(SYS_pread64, fd, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<long>(size, 0)));
    return text;
}

std::string through(int fd)
{
    return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

power::power(fs::path root, fs::path aside) : root_(std::move(root)), aside_(std::move(aside))
{
    fs::remove_all(aside_);
    fs::create_directories(aside_);
}

power::~power()
{
    std::error_code ignored;
    fs::remove_all(aside_, ignored);
}

bool power::is_ours(int directory) const
{
    std::error_code ignored;
    return fs::read_symlink(through(directory), ignored).native().starts_with(root_.native());
}

bool power::holds(int fd) const
{
    return std::ranges::any_of(files_, [fd](const auto& each) { return each.second.fd == fd; }) ||
           std::ranges::any_of(names_, [fd](const auto& each) { return each.directory == fd; });
}

void power::writes(int fd)
{
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
    const identity file{facts.st_dev, facts.st_ino};
    if (files_.contains(file)) return;
    std::error_code ignored;
    const auto path = fs::read_symlink(through(fd), ignored).native();
    if (!path.starts_with(root_.native()) || path.ends_with("-shm")) return;
    const int own = open_raw(AT_FDCWD, through(fd), O_RDWR);
    if (own >= 0) files_.emplace(file, content{.fd = own, .path = path, .synced = content_of(own)});
}

std::optional<power::change> power::begin(change::kind what, int where, const char* path)
{
    const std::string all = path;
    if (all.ends_with("-shm")) return std::nullopt;
    const auto slash = all.rfind('/');
    const auto parent = slash == std::string::npos ? "." : all.substr(0, slash);
    const int directory = open_raw(where, parent.empty() ? "/" : parent, O_PATH | O_DIRECTORY);
    if (directory < 0) return std::nullopt;
    if (!is_ours(directory)) return ::close(directory), std::nullopt;
    struct stat facts {};
    ::fstat(directory, &facts);
    return change{.what = what,
                  .directory = directory,
                  .of = {facts.st_dev, facts.st_ino},
                  .name = slash == std::string::npos ? all : all.substr(slash + 1)};
}

// Keeps what currently has this name.
void power::keep_aside(change& c)
{
    struct stat facts {};
    if (::fstatat(c.directory, c.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return;
    c.was_directory = S_ISDIR(facts.st_mode);
    c.mode = facts.st_mode & 07777;
    if (c.was_directory) return;
    const auto path = (aside_ / std::to_string(++kept_)).native();
    if (::syscall(SYS_linkat, c.directory, c.name.c_str(), AT_FDCWD, path.c_str(), 0) == 0)
        c.kept_aside = path;
}

void power::makes(int where, const char* name)
{
    auto c = begin(change::kind::made, where, name);
    if (!c) return;
    struct stat facts {};
    const bool there = ::fstatat(c->directory, c->name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
    if (there)
        ::close(c->directory);
    else
        names_.push_back(std::move(*c));
}

void power::removes(int where, const char* name)
{
    auto c = begin(change::kind::removed, where, name);
    if (!c) return;
    keep_aside(*c);
    if (c->kept_aside.empty() && !c->was_directory)
        ::close(c->directory);
    else
        names_.push_back(std::move(*c));
}

void power::renames(int from, const char* old_name, int to, const char* new_name)
{
    auto c = begin(change::kind::renamed, to, new_name);
    auto source = begin(change::kind::renamed, from, old_name);
    if (source) ::close(source->directory);
    if (!c) return;
    struct stat facts {};
    if (!source || ::fstatat(from, old_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return static_cast<void>(::close(c->directory));
    c->old_name = source->name;  // all renames are within one directory
    keep_aside(*c);
    names_.push_back(std::move(*c));
}

void power::forget(std::list<change>::iterator c)
{
    ::close(c->directory);
    if (!c->kept_aside.empty()) ::syscall(SYS_unlinkat, AT_FDCWD, c->kept_aside.c_str(), 0);
    names_.erase(c);
}

void power::syncs(int fd)
{
    struct stat facts {};
    if (::fstat(fd, &facts) != 0) return;
    const identity synced{facts.st_dev, facts.st_ino};
    if (const auto file = files_.find(synced); file != files_.end()) {
        ::close(file->second.fd);
        files_.erase(file);
    }
    for (auto c = names_.begin(); c != names_.end();) {
        const auto here = c++;
        if (here->of == synced) forget(here);
    }
}

void power::replaced_by_copy(const fs::path& original, const fs::path& copy)
{
    struct stat before {};
    struct stat after {};
    if (::stat(original.c_str(), &before) != 0 || ::stat(copy.c_str(), &after) != 0) return;
    auto node = files_.extract(identity{before.st_dev, before.st_ino});
    if (node.empty()) return;
    ::close(node.mapped().fd);
    node.mapped().fd = open_raw(AT_FDCWD, copy, O_RDWR);
    node.key() = {after.st_dev, after.st_ino};
    files_.insert(std::move(node));
}

std::string power::lose_content(content& c, dice& chance)
{
    const auto now = content_of(c.fd);
    const auto left = chance.chance(0.5) ? now.size() : c.synced.size();
    std::string torn(left, '\0');
    const auto how = chance.below(4);  // all new, all old, or page by page
    for (std::size_t at = 0; at < left; at += page) {
        // an adjacent write does not destroy synced data: only pages never written are zero
        const auto whose = how == 0 ? 0 : how == 1 ? 1 : chance.below(2);
        const auto& from = whose == 0 ? now : c.synced;
        if (at >= from.size()) continue;
        from.copy(torn.data() + at, std::min({page, left - at, from.size() - at}), at);
    }
    const auto told = c.path + ": " + std::to_string(now.size()) + " bytes, " +
                      std::to_string(c.synced.size()) + " synced, " + std::to_string(torn.size()) +
                      " left, way " + std::to_string(how);
    if (torn == now) return told + ", as it was";
    ++lost;
    ::syscall(SYS_ftruncate, c.fd, torn.size());
    ::syscall(SYS_pwrite64, c.fd, torn.data(), torn.size(), 0);
    return told;
}

void power::undo(const change& c)
{
    ++lost;
    const auto path = fs::path(through(c.directory)) / c.name;
    std::error_code ignored;
    switch (c.what) {
        case change::kind::made:
            fs::remove_all(path, ignored);
            break;
        case change::kind::renamed:
            ::syscall(SYS_renameat2, c.directory, c.name.c_str(), c.directory, c.old_name.c_str(), 0);
            [[fallthrough]];
        case change::kind::removed:
            if (c.was_directory) ::syscall(SYS_mkdirat, c.directory, c.name.c_str(), c.mode);
            if (!c.kept_aside.empty())
                ::syscall(SYS_linkat, AT_FDCWD, c.kept_aside.c_str(), c.directory, c.name.c_str(), 0);
            break;
    }
}

std::vector<std::string> power::cut(dice& chance)
{
    std::vector<std::string> told;
    for (auto& [file, c] : files_) {
        told.push_back(lose_content(c, chance));
        ::close(c.fd);
    }
    files_.clear();
    // Names connected by a rename belong to one group, and a random number of each group's last changes is
    // lost.
    std::map<std::pair<identity, std::string>, std::size_t> group;
    std::map<std::size_t, std::size_t> size;
    std::size_t groups = 0;
    std::vector<std::size_t> of;
    for (const auto& c : names_) {
        auto& mine = group.try_emplace({c.of, c.name}, groups).first->second;
        if (mine == groups) ++groups;
        if (!c.old_name.empty()) {
            const auto other = group.try_emplace({c.of, c.old_name}, mine).first->second;
            if (const auto joined = mine; other != joined) {
                for (auto& [name, which] : group)
                    if (which == other) which = joined;
                std::ranges::replace(of, other, joined);
                size[joined] += std::exchange(size[other], 0);
            }
        }
        of.push_back(mine);
        ++size[mine];
    }
    std::map<std::size_t, std::size_t> to_lose;
    for (const auto& [which, count] : size)
        to_lose[which] = count == 0 ? 0 : chance.below(count + 1);
    auto which = of.rbegin();
    for (auto c = names_.rbegin(); c != names_.rend(); ++c, ++which) {
        const bool lose = to_lose[*which] > 0;
        told.push_back(c->name +
                       (c->what == change::kind::made      ? " made"
                        : c->what == change::kind::removed ? " removed"
                                                           : " renamed from " + c->old_name) +
                       (lose ? ": lost" : ": kept"));
        if (!lose) continue;
        --to_lose[*which];
        undo(*c);
    }
    while (!names_.empty())
        forget(names_.begin());
    return told;
}

}  // namespace simulation
