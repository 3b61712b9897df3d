#include "agent/deploy/spool_reader.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/io/log_format.hpp"
#include "crypto/digest.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace deploy {
namespace {

const std::string taken = ".taken";              // in `results`: the entry that is being looked at
const std::string refused_prefix = ".refused-";  // what could not be removed

policy::failure refuse(policy::errc code, std::string sentence)
{
    return {.code = code, .context = std::move(sentence), .kind = policy::retry::after_change};
}

policy::result<void> judge(const struct stat& facts, const std::string& path)
{
    if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
        return refuse(policy::errc::foreign_file,
                      path + " does not belong to root: `chown root " + path + "`");
    if (facts.st_mode & (S_IWGRP | S_IWOTH))
        return refuse(policy::errc::foreign_file,
                      path + " may be written by others than its owner: `chmod go-w " + path + "`");
    return {};
}

policy::result<void> refuse_unless_ours(const disk::directory& opened)
{
    struct stat facts {};
    if (::fstat(opened.fd(), &facts) == 0) return judge(facts, opened.path().string());
    return refuse(policy::errc::disk, "cannot look at " + opened.path().string());
}

// The type bits of what was moved out; 0: nothing there.
mode_t type_of_taken(const disk::directory& results)
{
    struct stat facts {};
    return ::fstatat(results.fd(), taken.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 ? facts.st_mode & S_IFMT
                                                                                    : 0;
}

// Removes what was moved out; gone already is success. What cannot be removed (a tree that is too deep, or
// that nobody may list) is put aside, so that it does not hold up the others.
policy::result<void> throw_away(const disk::directory& results)
{
    if (type_of_taken(results) == S_IFDIR) {
        if (disk::remove_tree(results, taken)) return {};
        const std::string aside = refused_prefix + crypto::random_hex(8);
        if (::renameat(results.fd(), taken.c_str(), results.fd(), aside.c_str()) == 0) return {};
    }
    // not disk::remove_file: that spares what the agent never makes, such as a pipe
    if (::unlinkat(results.fd(), taken.c_str(), 0) == 0 || errno == ENOENT) return {};
    return refuse(policy::errc::disk,
                  "cannot remove " + results.path_of(taken) + ": " + std::generic_category().message(errno));
}

// A file of the agent's before its rename. A path unit does not see hidden names either.
bool is_being_written(const std::string& name)
{
    const auto end = name.rfind('.');
    if (end == 0 || end == std::string::npos || !name.starts_with('.')) return false;
    const auto entry = name.substr(1, end - 1);
    return disk::temporary_name(entry) == name && parse_spool_entry_name(entry);
}

policy::failure thrown_away(const std::string& name, const std::string& why)
{
    return refuse(policy::errc::refused,
                  "spool entry \"" + io::printable(name) + "\" was thrown away: " + why);
}

}  // namespace

policy::result<void> refuse_unless_trusted(const std::filesystem::path& path)
{
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0) return judge(facts, path.string());
    return refuse(policy::errc::disk,
                  "cannot look at " + path.string() + ": " + std::generic_category().message(errno));
}

policy::result<spool_reader> spool_reader::open(const std::filesystem::path& directory)
{
    const auto above = disk::directory::open(directory);
    if (!above) return above.error();
    if (const auto ours = refuse_unless_ours(*above); !ours) return ours.error();
    auto results = above->enter("results");
    if (!results) return results.error();
    if (const auto ours = refuse_unless_ours(*results); !ours) return ours.error();
    auto spool = above->enter("spool");
    if (!spool) return spool.error();
    return spool_reader(std::move(*spool), std::move(*results));
}

policy::result<std::vector<std::string>> spool_reader::names() const
{
    auto all = spool_.names();
    if (all)
        std::erase_if(*all, [](const std::string& name) {
            return is_being_written(name) || name.starts_with(refused_prefix);
        });
    return all;
}

policy::result<std::pair<policy::user_name, spool_request>> spool_reader::take(const std::string& name) const
{
    if (const auto gone = throw_away(results_); !gone) return gone.error();
    if (::renameat(spool_.fd(), name.c_str(), results_.fd(), taken.c_str()) != 0) {
        if (errno == ENOENT) return refuse(policy::errc::not_found, "the spool entry is gone");
        // a hidden name: the path unit does not start the helper for it again
        const int error = errno;
        const std::string aside = refused_prefix + crypto::random_hex(8);
        if (::renameat(spool_.fd(), name.c_str(), spool_.fd(), aside.c_str()) == 0)
            return thrown_away(name, "it cannot be moved: " + std::generic_category().message(error));
        errno = error;
        return refuse(policy::errc::disk, "spool entry \"" + io::printable(name) +
                                              "\" cannot be thrown away: " +
                                              std::generic_category().message(errno) + "; remove it by hand");
    }
    const bool is_file = type_of_taken(results_) == S_IFREG;
    const auto text = disk::read_file(results_, taken, spool_file_bytes);
    if (const auto removed = throw_away(results_); !removed) return removed.error();

    if (!is_file) return thrown_away(name, "it is no file, but a link, a directory or a pipe");
    const auto user = parse_spool_entry_name(name);
    if (!user) return thrown_away(name, "it is not the name of a user");
    if (!text) return thrown_away(name, text.error().context);
    if (!*text) return thrown_away(name, "it has no content");
    auto request = read_spool_request(**text);
    if (!request) return thrown_away(name, request.error().context);
    return std::pair(*user, std::move(*request));
}

policy::result<void> spool_reader::answer(const policy::user_name& user, const spool_answer& said) const
{
    const auto name = spool_entry_name(user);
    if (!name) return refuse(policy::errc::internal, user.text() + " has no name in the spool");
    return disk::write_file(results_, *name, write_spool_answer(said), {.mode = 0644});
}

}  // namespace deploy
