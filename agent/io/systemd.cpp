#include "agent/io/systemd.hpp"

#include "agent/io/log.hpp"

#include <systemd/sd-daemon.h>
// we send our own fields; CODE_FILE and similar would always name the same file
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <optional>
#include <type_traits>

namespace io {

namespace {

static_assert(std::is_same_v<decltype(libsystemd::notify), decltype(&::sd_notify)> &&
              std::is_same_v<decltype(libsystemd::watchdog_enabled), decltype(&::sd_watchdog_enabled)> &&
              std::is_same_v<decltype(libsystemd::journal_sendv), decltype(&::sd_journal_sendv)>);

template <class Function>
bool find(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

std::optional<libsystemd> load()
{
    void* library = ::dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    libsystemd functions{};
    if (!library || !find(library, "sd_notify", functions.notify) ||
        !find(library, "sd_watchdog_enabled", functions.watchdog_enabled) ||
        !find(library, "sd_journal_sendv", functions.journal_sendv))
        return std::nullopt;
    return functions;
}

}  // namespace

const libsystemd* load_libsystemd()
{
    static const auto functions = load();
    return functions ? &*functions : nullptr;
}

}  // namespace io

namespace io::notify {

namespace {

// Best effort: if systemd does not listen, the daemon can only go on.
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
