#include "agent/io/notify.hpp"

#include "agent/io/libsystemd.hpp"
#include "agent/io/log_format.hpp"

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace io::notify {

namespace {

// Lost when systemd does not listen: there is nothing better to do than to go on.
void send(const std::string& state)
{
    if (!std::getenv("NOTIFY_SOCKET")) return;
    if (const auto* systemd = load_libsystemd()) systemd->notify(0, state.c_str());
}

std::string status_line(const std::string& text)
{
    return "STATUS=" + printable(text);
}

}  // namespace

void ready(const std::string& status)
{
    send("READY=1\n" + status_line(status));
}

void status(const std::string& text)
{
    send(status_line(text));
}

void reloading()
{
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const auto microseconds =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
    send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
}

void stopping(const std::string& status)
{
    send("STOPPING=1\n" + status_line(status));
}

void watchdog()
{
    send("WATCHDOG=1");
}

void extend_timeout(std::chrono::microseconds duration)
{
    send("EXTEND_TIMEOUT_USEC=" + std::to_string(duration.count()));
}

std::optional<std::chrono::microseconds> watchdog_interval()
{
    if (!std::getenv("WATCHDOG_USEC")) return std::nullopt;
    const auto* systemd = load_libsystemd();
    std::uint64_t microseconds = 0;
    if (!systemd || systemd->watchdog_enabled(0, &microseconds) <= 0) return std::nullopt;
    return std::chrono::microseconds(microseconds);
}

}  // namespace io::notify
