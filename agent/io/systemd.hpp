#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/uio.h>

// The libsystemd functions we call, loaded on first use: the same program runs on hosts with and without
// systemd, and one-shot runs from cron do not pay for loading it.

namespace io {

struct libsystemd {
    int (*notify)(int, const char*);
    int (*watchdog_enabled)(int, std::uint64_t*);
    int (*journal_sendv)(const iovec*, int);
};

// nullptr when this host does not have libsystemd.so.0.
const libsystemd* load_libsystemd();

}  // namespace io

// Notifications to systemd about the daemon, sd_notify(3). No-ops without $NOTIFY_SOCKET.
namespace io::notify {

void ready(const std::string& status);
void status(const std::string& text);  // STATUS=, shown by `systemctl status`
void reloading();  // with MONOTONIC_USEC=, as required by Type=notify-reload; ended by ready()
void stopping(const std::string& status);
void watchdog();

// Requests this much time from now, beyond TimeoutStopSec (or TimeoutStartSec).
void extend_timeout(std::chrono::microseconds);

// The unit's WatchdogSec=, to be notified at half that interval;
// nullopt when it is off or meant for another process.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace io::notify
