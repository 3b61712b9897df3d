#include "agent/io/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace io {

descriptor::~descriptor()
{
    if (fd_ >= 0) ::close(fd_);
}

std::optional<std::string> read_bounded(int fd, std::size_t limit)
{
    struct stat facts;
    if (::fstat(fd, &facts) != 0) return std::nullopt;
    // pipes and kernel-generated files do not report their size
    const auto expected =
        S_ISREG(facts.st_mode) && facts.st_size > 0 ? static_cast<std::size_t>(facts.st_size) : limit;
    std::string content(std::min(expected, limit) + 1, '\0');
    std::size_t size = 0;
    while (size < content.size()) {
        const ssize_t got = ::read(fd, content.data() + size, content.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    if (size == content.size() && size <= limit) {  // it grew in the meantime
        errno = EAGAIN;
        return std::nullopt;
    }
    content.resize(size);
    return content;
}

}  // namespace io
