#include "agent/disk/directory.hpp"
#include "agent/disk/file_publisher.hpp"
#include "agent/disk/published_names.hpp"
#include "policy/naming.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

// A look costs one open, one readlink and one lstat a file: with a thousand users nothing may be read.

namespace disk {
namespace {

using policy::output_condition;

struct look {
    output_condition condition = output_condition::sound;
    std::string detail;
};

constexpr int type_bits = S_IFMT;
// What the kernel shows for an owner that this process's user namespace does not map (PrivateUsers=), and
// what is recorded then: no owner, user_namespaces(7).
constexpr std::uint32_t overflow_id = 65534;
constexpr std::uint32_t unmapped_id = 0xffff'ffff;

std::optional<struct stat> lstat_in(int published, const std::string& generation, const std::string& name)
{
    struct stat facts;
    const std::string path = name == generation_itself ? generation : generation + "/" + name;
    if (fstatat(published, path.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return facts;
}

// A namespace that maps every id to itself has one line: 0 0 4294967295.
bool maps_all(const char* map)
{
    std::ifstream lines(map);
    std::uint64_t inside = 0;
    std::uint64_t outside = 0;
    std::uint64_t count = 0;
    return !(lines >> inside >> outside >> count) || (inside == 0 && outside == 0 && count >= unmapped_id);
}

std::uint32_t owner_of(std::uint32_t shown, bool all_are_mapped)
{
    return shown == overflow_id && !all_are_mapped ? unmapped_id : shown;
}

policy::published_file facts_from(const std::string& name, const struct stat& from)
{
    static const bool maps_all_users = maps_all("/proc/self/uid_map");
    static const bool maps_all_groups = maps_all("/proc/self/gid_map");
    policy::published_file facts{.name = name,
                                 .inode = from.st_ino,
                                 .mode = from.st_mode & 07777u,
                                 .uid = owner_of(from.st_uid, maps_all_users),
                                 .gid = owner_of(from.st_gid, maps_all_groups)};
    if (name == generation_itself) return facts;
    facts.size = static_cast<std::uint64_t>(from.st_size);
    facts.mtime_ns = from.st_mtim.tv_sec * 1'000'000'000 + from.st_mtim.tv_nsec;
    return facts;
}

std::string octal(unsigned mode)
{
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "%04o", mode);
    return text.data();
}

// The daemon may have recorded ids from within its namespace that a command outside sees as they are.
std::uint32_t seen_from_either(std::uint32_t is, std::uint32_t was)
{
    return is == unmapped_id || was == unmapped_id ? was : is;
}

std::string difference(const policy::published_file& was, const policy::published_file& is)
{
    if (was.mode != is.mode) return "has mode " + octal(is.mode) + " instead of " + octal(was.mode);
    if (was.uid != is.uid || was.gid != is.gid) return "has another owner or group";
    if (was.inode != is.inode) return "was replaced";
    return "was changed";
}

look look_at_file(int published, const std::string& generation, const policy::published_file& was)
{
    const auto there = lstat_in(published, generation, was.name);
    const std::string shown = was.name == generation_itself ? generation : generation + "/" + was.name;
    if (!there) return {output_condition::damaged, shown + " is missing"};
    const auto expected = was.name == generation_itself ? S_IFDIR : S_IFREG;
    if ((there->st_mode & type_bits) != static_cast<mode_t>(expected))
        return {output_condition::foreign, shown + " is a link or no file: move it away"};
    auto is = facts_from(was.name, *there);
    is.digest = was.digest;  // the stat facts are enough: nothing is read
    is.uid = seen_from_either(is.uid, was.uid);
    is.gid = seen_from_either(is.gid, was.gid);
    if (is != was) return {output_condition::damaged, shown + " " + difference(was, is)};
    return {};
}

look look_at_link(int published, const std::string& wanted)
{
    std::array<char, 256> target;
    const auto length = readlinkat(published, current_name, target.data(), target.size());
    if (length < 0 && errno == ENOENT) return {output_condition::missing, "current is missing"};
    if (length < 0) return {output_condition::foreign, "current is no link: move it away"};
    const std::string names(target.data(), static_cast<std::size_t>(length));
    if (names == wanted) return {};
    if (policy::is_generation_id(names))
        return {output_condition::damaged, "current names " + names + " instead of " + wanted};
    struct stat target_facts;
    if (fstatat(published, current_name, &target_facts, 0) != 0 && errno == ENOENT)
        return {output_condition::damaged, "current leads to " + names + ", which does not exist"};
    return {output_condition::foreign, "current is a link that the agent did not make: remove it"};
}

bool is_link(const std::string& path)
{
    struct stat facts;
    return lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

look look_at_output(const policy::stored_user& user, const std::string& path)
{
    if (user.current.empty()) return {output_condition::missing, "nothing is published yet"};
    const descriptor published(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!published && errno == ENOENT) return {output_condition::missing, path + " is missing"};
    if (!published && (errno == ELOOP || errno == ENOTDIR))
        return {output_condition::foreign,
                path + (is_link(path) ? " is a link" : " is not a directory") + ": move it away"};
    if (!published)
        return {output_condition::damaged,
                path + " cannot be looked at: " + std::generic_category().message(errno)};
    if (auto link = look_at_link(published.get(), user.current); link.condition != output_condition::sound)
        return link;
    if (user.files.empty()) return {output_condition::damaged, "how the files were written is not known"};
    for (const auto& file : user.files)
        if (auto found = look_at_file(published.get(), user.current, file);
            found.condition != output_condition::sound)
            return found;
    return {};
}

}  // namespace

std::optional<policy::published_file> look_at_published(int published, const std::string& generation,
                                                        const std::string& name)
{
    const auto facts = lstat_in(published, generation, name);
    if (!facts) return std::nullopt;
    return facts_from(name, *facts);
}

void file_publisher::inspect(policy::stored_user& user, const std::string& directory)
{
    auto found = look_at_output(user, directory);
    user.output = found.condition;
    user.output_detail = std::move(found.detail);
}

}  // namespace disk
