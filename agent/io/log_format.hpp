#pragma once

#include "agent/io/log.hpp"
#include "policy/time.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// How a line of the log looks: pure, so that a table can test it.

namespace io {

struct log_record {
    severity level = severity::info;
    log_event event = {};  // of no kind: both empty
    log_subject subject = {};
    std::string_view message;
    std::map<std::string, std::string> fields = {};
};

// Foreign text made safe for a terminal, a line and JSON: control characters (C0, C1), line ends, characters
// that turn the direction of text (Unicode UAX #9) and bytes that are not UTF-8 become \xNN (\n, \r and \t
// as usual); everything else is as it was. Every output to people goes through it.
std::string printable(std::string_view untrusted);

// "2026-11-20T18:49:22Z warning: logs/siem-forwarder: message (serial=01)", no line end.
std::string text_line(const log_record&, policy::instant);

// The same without a time, the level in colour if wanted: for a terminal.
std::string terminal_line(const log_record&, bool colour);

// The same led by "<4>", sd-daemon(3): for a service whose standard error systemd reads.
std::string prefixed_line(const log_record&);

// One JSON object: time, level, event, exposure, user, generation, message, then the fields.
std::string json_line(const log_record&, policy::instant);

// "NAME=value" for sd_journal_sendv(3): MESSAGE, PRIORITY, MESSAGE_ID, EXPOSURE, EXPOSURE_USER,
// EXPOSURE_GENERATION, EXPOSURE_EVENT; a field `serial` becomes EXPOSURE_SERIAL.
std::vector<std::string> journal_fields(const log_record&);

}  // namespace io
