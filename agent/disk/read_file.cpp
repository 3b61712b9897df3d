#include "agent/disk/read_file.hpp"

#include "agent/disk/errors.hpp"

#include <cerrno>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace disk {
namespace {

constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // opening a FIFO must not wait

policy::failure cannot(const char* do_what, const std::string& path)
{
    return from_errno(errno, std::string("cannot ") + do_what + " " + path);
}

policy::result<std::string> read_all(int fd, std::size_t limit, const std::string& path)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) return cannot("look at", path);
    if (!S_ISREG(facts.st_mode)) return foreign(path, "no regular file");
    const auto too_large = [&] {
        return policy::failure{.code = policy::errc::disk,
                               .context = path + " is larger than " + std::to_string(limit) + " bytes",
                               .kind = policy::retry::after_change};
    };
    if (static_cast<std::size_t>(facts.st_size) > limit) return too_large();

    // one allocation, one byte more than expected: a growing string would leave copies of a secret behind
    std::string content(static_cast<std::size_t>(facts.st_size) + 1, '\0');
    std::size_t size = 0;
    while (size < content.size()) {
        const ssize_t got = read(fd, content.data() + size, content.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot("read", path);
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    if (size == content.size())
        return policy::failure{.code = policy::errc::disk, .context = path + " changed while it was read"};
    content.resize(size);
    return content;
}

policy::result<std::optional<std::string>> read_opened(const descriptor& file, std::size_t limit,
                                                       const std::string& path)
{
    if (!file && errno == ENOENT) return std::optional<std::string>();
    if (!file && errno == ELOOP) return foreign(path, "a link");
    if (!file) return cannot("open", path);
    auto content = read_all(file.get(), limit, path);
    if (!content) return content.error();
    return std::optional(std::move(*content));
}

}  // namespace

policy::result<std::optional<std::string>> read_file(const directory& where, const std::string& name,
                                                     std::size_t limit)
{
    if (!is_plain_name(name)) return foreign(where.path_of(name), "no name of a file in this directory");
    const descriptor file(openat(where.fd(), name.c_str(), read_flags | O_NOFOLLOW));
    return read_opened(file, limit, where.path_of(name));
}

policy::result<std::optional<std::string>> read_file(const std::filesystem::path& path, std::size_t limit)
{
    const descriptor file(open(path.c_str(), read_flags));
    return read_opened(file, limit, path.string());
}

policy::result<std::string> read_descriptor(int fd, std::size_t limit, const std::string& path)
{
    return read_all(fd, limit, path);
}

policy::result<std::optional<std::string>> read_own_file(const std::filesystem::path& path, std::size_t limit)
{
    const descriptor file(open(path.c_str(), read_flags | O_NOFOLLOW));
    struct stat facts;
    if (file && (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
                 facts.st_nlink != 1 || (facts.st_mode & 077) != 0))
        return std::optional<std::string>();
    return read_opened(file, limit, path.string());
}

policy::result<std::optional<std::string>> read_link(const directory& where, const std::string& name)
{
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(where.fd(), name.c_str(), target.data(), target.size());
    if (size < 0 && errno == ENOENT) return std::optional<std::string>();
    if (size < 0 && errno == EINVAL) return foreign(where.path_of(name), "no link");
    if (size < 0) return cannot("read the link", where.path_of(name));
    target.resize(static_cast<std::size_t>(size));
    return std::optional(std::move(target));
}

}  // namespace disk
