#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace io {

// Owns a file descriptor.
class descriptor {
public:
    explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor();

    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_;
};

// The rest of an open file, or nullopt with errno set. Reads at most `limit` bytes plus one, which tells the
// caller that the file is too large. Uses a single allocation, because a growing string would leave copies of
// a secret behind.
std::optional<std::string> read_bounded(int fd, std::size_t limit);

}  // namespace io
