#pragma once

#include <map>
#include <string>
#include <string_view>

// One line per event that matters. The shell logs (cli, service, reconcile), libraries return failures.

namespace io {

enum class severity { error, warning, info, debug };
enum class log_format { automatic, text, json, journal };

// What the event is about: a field each in the journal (EXPOSURE, EXPOSURE_USER, EXPOSURE_GENERATION) and in
// JSON.
struct log_subject {
    std::string exposure = {};
    std::string user = {};
    std::string generation = {};
};

// A kind of event with a fixed MESSAGE_ID (128-bit hex); see log_events.hpp.
struct log_event {
    std::string_view name;        // "rotated"
    std::string_view message_id;  // journal MESSAGE_ID
};

// Chooses sink and threshold once, at start. automatic: the native journal when stderr is the journal
// ($JOURNAL_STREAM against fstat, systemd.exec(5)), text on a terminal and elsewhere.
void configure_log(severity threshold, log_format);

bool log_enabled(severity) noexcept;

void log(severity, const log_event&, const log_subject&, std::string_view message,
         const std::map<std::string, std::string>& fields = {});
void log(severity, std::string_view message);

}  // namespace io
