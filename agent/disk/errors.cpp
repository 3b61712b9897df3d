#include "agent/disk/errors.hpp"

#include <cerrno>
#include <system_error>

namespace disk {
namespace {

struct meaning {
    policy::errc code = policy::errc::disk;
    policy::retry kind = policy::retry::later;
    const char* remedy = "";
};

meaning meaning_of(int error)
{
    using policy::errc;
    using policy::retry;
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return {errc::disk_full, retry::later, "; free some space"};
        case EFBIG:
            return {errc::disk_full, retry::later, "; raise the limit on the size of files (LimitFSIZE=)"};
        case ELOOP:
        case ENOTDIR:
        case EISDIR:
        case EEXIST:
            return {errc::foreign_file, retry::after_change,
                    "; something that is not ours stands in the way: move it away"};
        case EACCES:
        case EPERM:
            return {errc::disk, retry::after_change, "; give the agent's user the permission"};
        case EROFS:
            return {errc::disk, retry::after_change,
                    "; make it writable for the agent (under systemd: ReadWritePaths=)"};
        case ENOENT:
            return {errc::disk, retry::after_change, "; create it, or correct the configuration"};
        case ENAMETOOLONG:
            return {errc::disk, retry::after_change, "; choose shorter names"};
        default:
            return {};
    }
}

}  // namespace

policy::failure from_errno(int error, std::string what)
{
    const meaning found = meaning_of(error);
    what += ": " + std::generic_category().message(error) + found.remedy;
    return {.code = found.code, .context = std::move(what), .kind = found.kind};
}

policy::failure foreign(const std::string& path, const std::string& what_it_is)
{
    return {.code = policy::errc::foreign_file,
            .context = path + " is " + what_it_is + "; it is left alone: move it away",
            .kind = policy::retry::after_change};
}

}  // namespace disk
