#include "agent/disk/state_directory.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/errors.hpp"
#include "agent/disk/ownership.hpp"

#include <cerrno>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace disk {
namespace {

constexpr mode_t state_mode = 0711;
constexpr mode_t private_mode = 0700;

policy::result<uid_t> owner_of(const directory& one)
{
    struct stat facts;
    if (fstat(one.fd(), &facts) != 0) return from_errno(errno, "cannot look at " + one.path().string());
    return facts.st_uid;
}

policy::failure belongs_to(uid_t owner, const std::string& path)
{
    return {.code = policy::errc::foreign_file,
            .context = path + " belongs to " + user_text(owner) + ", who could not read what " +
                       user_text(geteuid()) +
                       " puts there. Start the service and run the command again, or run: sudo -u " +
                       user_text(owner) + " exposure-agent ...",
            .kind = policy::retry::after_change};
}

policy::result<directory> open_state_directory(const std::filesystem::path& path)
{
    struct stat facts;
    const bool there = stat(path.c_str(), &facts) == 0;
    auto opened =
        there ? directory::open_through_link(path) : directory::make_path(path, {.mode = state_mode});
    if (!opened) return opened;
    const auto owner = owner_of(*opened);
    if (!owner) return owner.error();
    if (*owner != geteuid() && *owner != 0) return belongs_to(*owner, path.string());
    if (*owner == geteuid())
        if (const auto set = set_access(opened->fd(), {.mode = state_mode}, path.string()); !set)
            return set.error();
    return opened;
}

}  // namespace

policy::result<void> prepare_state_directory(const paths& where)
{
    const auto state = open_state_directory(where.state_dir());
    if (!state) return state.error();
    const std::string name = where.private_directory().filename().string();
    if (state->has(name)) {
        const auto there = state->enter(name);
        if (!there) return there.error();
        const auto owner = owner_of(*there);
        if (!owner) return owner.error();
        if (*owner != geteuid()) return belongs_to(*owner, where.private_directory().string());
    }
    const auto made = state->make(name, {.mode = private_mode});
    if (!made) return made.error();
    return {};
}

}  // namespace disk
