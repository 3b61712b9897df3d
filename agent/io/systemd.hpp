#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/uio.h>

// The functions of libsystemd that are called, loaded when first needed: one program runs on hosts with and
// without systemd, and a one-shot from cron does not pay for loading it.

namespace io {

struct libsystemd {
    int (*notify)(int, const char*);
    int (*watchdog_enabled)(int, std::uint64_t*);
    int (*journal_sendv)(const iovec*, int);
};

// nullptr: this host does not have libsystemd.so.0.
const libsystemd* load_libsystemd();

}  // namespace io

// What systemd is told about the daemon, sd_notify(3). All of it does nothing without $NOTIFY_SOCKET.
namespace io::notify {

void ready(const std::string& status);
void status(const std::string& text);  // STATUS=, shown by `systemctl status`
void reloading();  // with MONOTONIC_USEC=, as Type=notify-reload wants it; ready() ends it
void stopping(const std::string& status);
void watchdog();

// Asks for that much time, from now, beyond TimeoutStopSec (or TimeoutStartSec).
void extend_timeout(std::chrono::microseconds);

// WatchdogSec= of the unit, to be fed at half that interval; none when it is off or meant for another
// process.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace io::notify
