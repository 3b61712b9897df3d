#pragma once

#include <systemd/sd-daemon.h>
// our own fields are sent; CODE_FILE and the like would name one file always
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

// The functions of libsystemd that are called, loaded when first needed: one program runs on hosts with and without
// systemd, and a one-shot from cron does not pay for loading it.

namespace io {

struct libsystemd {
    decltype(&::sd_notify) notify;
    decltype(&::sd_watchdog_enabled) watchdog_enabled;
    decltype(&::sd_journal_sendv) journal_sendv;
};

// nullptr: this host does not have libsystemd.so.0.
const libsystemd* load_libsystemd();

}  // namespace io
