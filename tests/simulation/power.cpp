#include "tests/simulation/power.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <ranges>
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

std::size_t size_of(int fd)
{
    struct stat facts {};
    ::fstat(fd, &facts);
    return static_cast<std::size_t>(facts.st_size);
}

std::string read_at(int fd, std::size_t at, std::size_t size)
{
    std::string text(size, '\0');
    const auto got = ::syscall(SYS_pread64, fd, text.data(), text.size(), at);
    text.resize(static_cast<std::size_t>(std::max<long>(got, 0)));
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

bool power::is_new(const fs::path& path) const
{
    struct stat facts;
    if (::stat(path.parent_path().c_str(), &facts) != 0) return false;
    return std::ranges::any_of(names_, [&](const change& each) {
        return each.of == identity{facts.st_dev, facts.st_ino} && each.name == path.filename() &&
               each.what != change::kind::removed && each.kept_aside.empty();
    });
}

bool power::holds(int fd) const
{
    return std::ranges::any_of(files_, [fd](const auto& each) { return each.second.fd == fd; }) ||
           std::ranges::any_of(names_, [fd](const auto& each) { return each.directory == fd; });
}

power::content* power::opened(int fd)
{
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return nullptr;
    const identity file{facts.st_dev, facts.st_ino};
    if (const auto known = files_.find(file); known != files_.end()) return &known->second;
    std::error_code ignored;
    const auto path = fs::read_symlink(through(fd), ignored).native();
    if (!path.starts_with(root_.native()) || path.ends_with("-shm")) return nullptr;
    const int own = open_raw(AT_FDCWD, through(fd), O_RDWR);
    if (own < 0) return nullptr;
    return &files_
                .emplace(file, content{.fd = own,
                                       .path = path,
                                       .synced = static_cast<std::size_t>(facts.st_size),
                                       .pages = {}})
                .first->second;
}

void power::keep_pages(content& of, std::size_t from, std::size_t to)
{
    for (auto at = from / page * page; at < std::min(to, of.synced); at += page)
        if (!of.pages.contains(at)) of.pages.emplace(at, read_at(of.fd, at, std::min(page, of.synced - at)));
}

void power::writes(int fd, off_t at, std::size_t size)
{
    const auto from = static_cast<std::size_t>(at);
    if (auto* of = opened(fd)) keep_pages(*of, from, from + size);
}

void power::resizes(int fd, off_t size)
{
    if (auto* of = opened(fd)) keep_pages(*of, static_cast<std::size_t>(size), of->synced);
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
        note(std::move(*c));
}

void power::removes(int where, const char* name)
{
    auto c = begin(change::kind::removed, where, name);
    if (!c) return;
    keep_aside(*c);
    if (c->kept_aside.empty() && !c->was_directory)
        ::close(c->directory);
    else
        note(std::move(*c));
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
    note(std::move(*c));
}

void power::note(change c)
{
    c.number = ++noted_;
    names_.push_back(std::move(c));
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

std::string power::drawn_content(const content& c, dice& chance) const
{
    const auto now = read_at(c.fd, 0, size_of(c.fd));
    const auto left = chance.chance(0.5) ? now.size() : c.synced;
    std::string torn(left, '\0');
    const auto how = chance.below(4);  // all new, all old, or page by page
    for (std::size_t at = 0; at < left; at += page) {
        // an adjacent write does not destroy synced data: only pages never written are zero
        const auto whose = how == 0 ? 0 : how == 1 ? 1 : chance.below(2);
        const auto old = c.pages.find(at);
        if (whose == 1 && at < c.synced && old != c.pages.end())
            old->second.copy(torn.data() + at, std::min(page, left - at));
        else if (at < now.size() && (whose == 0 || at < c.synced))
            now.copy(torn.data() + at, std::min({page, left - at, now.size() - at}), at);
    }
    return torn;
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

power::loss power::draw(dice& chance) const
{
    loss drawn;
    for (const auto& [file, c] : files_)
        drawn.contents.emplace(file, drawn_content(c, chance));
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
        if (to_lose[*which] == 0) continue;
        --to_lose[*which];
        drawn.names.insert(c->number);
    }
    return drawn;
}

std::vector<std::string> power::cut(const loss& drawn)
{
    std::vector<std::string> told;
    for (auto& [file, c] : files_) {
        const auto now = read_at(c.fd, 0, size_of(c.fd));
        const auto& left = drawn.contents.at(file);
        told.push_back(c.path + ": " + std::to_string(now.size()) + " bytes, " + std::to_string(c.synced) +
                       " synced, " + std::to_string(left.size()) + " left" +
                       (left == now ? ", as it was" : ""));
        if (left != now) {
            ++lost;
            ::syscall(SYS_ftruncate, c.fd, left.size());
            ::syscall(SYS_pwrite64, c.fd, left.data(), left.size(), 0);
        }
        ::close(c.fd);
    }
    files_.clear();
    for (const auto& c : std::views::reverse(names_)) {
        const bool lose = drawn.names.contains(c.number);
        told.push_back(c.name +
                       (c.what == change::kind::made      ? " made"
                        : c.what == change::kind::removed ? " removed"
                                                          : " renamed from " + c.old_name) +
                       (lose ? ": lost" : ": kept"));
        if (lose) undo(c);
    }
    while (!names_.empty())
        forget(names_.begin());
    return told;
}

void copy_tree(const fs::path& from, const fs::path& to)
{
    std::map<std::pair<dev_t, ino_t>, fs::path> known;
    fs::create_directory(to, from);
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
        const auto place = to / entry.path().lexically_relative(from);
        struct stat facts {};
        ::lstat(entry.path().c_str(), &facts);
        if (S_ISDIR(facts.st_mode)) {
            fs::create_directory(place, entry.path());
        } else if (S_ISLNK(facts.st_mode)) {
            fs::copy_symlink(entry.path(), place);
        } else if (S_ISSOCK(facts.st_mode)) {
            fs::create_hard_link(entry.path(), place);
        } else if (const auto [same, is_new] = known.try_emplace({facts.st_dev, facts.st_ino}, place);
                   !is_new) {
            fs::create_hard_link(same->second, place);
        } else {
            fs::copy_file(entry.path(), place);
            const timespec times[] = {facts.st_atim, facts.st_mtim};
            ::utimensat(AT_FDCWD, place.c_str(), times, 0);
        }
    }
}

std::uint64_t digest_of_tree(const fs::path& root)
{
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        const auto name = entry.path().lexically_relative(root).native();
        if (name.ends_with("-shm")) continue;
        auto& content = all[name];
        if (entry.is_symlink()) {
            content = fs::read_symlink(entry.path()).native();
        } else if (entry.is_regular_file()) {
            const int fd = open_raw(AT_FDCWD, entry.path(), O_RDONLY);
            content = read_at(fd, 0, size_of(fd));
            ::close(fd);
        }
    }
    std::size_t digest = 0;
    for (const auto& [name, content] : all)
        for (const auto* each : {&name, &content})
            digest = (digest ^ std::hash<std::string>()(*each)) * 0x9e3779b97f4a7c15ULL + (digest >> 29);
    return digest;
}

std::unique_ptr<power> power::on_copy(const fs::path& original, const fs::path& copy,
                                      const fs::path& aside) const
{
    auto made = std::make_unique<power>(copy, aside);
    std::map<identity, fs::path> places;
    const auto identity_of = [](const fs::path& path) {
        struct stat facts {};
        ::lstat(path.c_str(), &facts);
        return identity{facts.st_dev, facts.st_ino};
    };
    places.emplace(identity_of(original), copy);
    for (const auto& entry : fs::recursive_directory_iterator(original))
        places.emplace(identity_of(entry.path()), copy / entry.path().lexically_relative(original));
    for (const auto& entry : fs::directory_iterator(aside_)) {
        const auto to = aside / entry.path().filename();
        const auto known = places.find(identity_of(entry.path()));
        if (known != places.end())
            fs::create_hard_link(known->second, to);
        else if (entry.is_symlink())
            fs::copy_symlink(entry.path(), to);
        else if (entry.is_regular_file())
            fs::copy_file(entry.path(), to);
        else
            fs::create_hard_link(entry.path(), to);
        places.emplace(identity_of(entry.path()), to);
    }
    for (const auto& [file, c] : files_) {
        const auto place = places.find(file);
        if (place == places.end()) continue;  // it has no name any more
        auto same = c;
        same.fd = open_raw(AT_FDCWD, place->second, O_RDWR);
        if (same.fd >= 0) made->files_.emplace(file, std::move(same));
    }
    for (const auto& c : names_) {
        const auto place = places.find(c.of);
        if (place == places.end()) continue;
        auto same = c;
        same.directory = open_raw(AT_FDCWD, place->second, O_PATH | O_DIRECTORY);
        if (!c.kept_aside.empty()) same.kept_aside = aside / fs::path(c.kept_aside).filename();
        if (same.directory >= 0) made->names_.push_back(std::move(same));
    }
    return made;
}

}  // namespace simulation
