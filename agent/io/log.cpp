#include "agent/io/log.hpp"

#include "agent/io/libsystemd.hpp"
#include "agent/io/log_format.hpp"

#include <chrono>
#include <cstdlib>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace io {

namespace {

enum class sink { terminal, colour_terminal, prefixed, text, json, journal };

constexpr const char* clear_line = "\r\033[K";  // of a progress bar, which is drawn again

// Chosen at start, before any thread; a line is one write(2), so that lines never mix.
struct log_settings {
    severity threshold = severity::info;
    sink to = sink::text;
};

log_settings& settings()
{
    static log_settings instance;
    return instance;
}

// systemd.exec(5), $JOURNAL_STREAM: device and inode of the stream that leads to the journal.
bool stderr_is_journal()
{
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat facts {};
    if (!stream || ::fstat(STDERR_FILENO, &facts) != 0) return false;
    return stream == std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino);
}

sink text_sink()
{
    if (::isatty(STDERR_FILENO)) {
        const char* no_colour = std::getenv("NO_COLOR");  // no-color.org: set and not empty
        return no_colour && *no_colour ? sink::terminal : sink::colour_terminal;
    }
    return std::getenv("INVOCATION_ID") ? sink::prefixed : sink::text;  // systemd.exec(5): under systemd
}

sink choose(log_format format)
{
    switch (format) {
        case log_format::automatic:
            return stderr_is_journal() ? sink::journal : text_sink();
        case log_format::text:
            return text_sink();
        case log_format::json:
            return sink::json;
        case log_format::journal:
            return sink::journal;
    }
    return sink::text;
}

// False when there is no journal to send to.
bool send_to_journal(const log_record& record)
{
    const auto* systemd = load_libsystemd();
    if (!systemd) return false;
    const auto fields = journal_fields(record);
    std::vector<iovec> parts;
    for (const auto& field : fields)
        parts.push_back({const_cast<char*>(field.data()), field.size()});
    return systemd->journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0;
}

std::string line_for(sink to, const log_record& record)
{
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    switch (to) {
        case sink::terminal:
        case sink::colour_terminal:
            return terminal_line(record, to == sink::colour_terminal);
        case sink::prefixed:
        case sink::journal:
            return prefixed_line(record);
        case sink::json:
            return json_line(record, now);
        case sink::text:
            break;
    }
    return text_line(record, now);
}

void write_record(const log_record& record)
{
    const auto to = settings().to;
    if (to == sink::journal && send_to_journal(record)) return;
    const bool on_screen = to == sink::terminal || to == sink::colour_terminal;
    const auto line = (on_screen ? clear_line : "") + line_for(to, record) + "\n";
    // A log that cannot be written has nobody left to tell.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void configure_log(severity threshold, log_format format)
{
    settings() = {threshold, choose(format)};
}

bool log_enabled(severity level) noexcept
{
    return level <= settings().threshold;
}

void log(severity level, const log_event& event, const log_subject& subject, std::string_view message,
         const std::map<std::string, std::string>& fields)
{
    if (log_enabled(level)) write_record({level, event, subject, message, fields});
}

void log(severity level, std::string_view message)
{
    if (log_enabled(level)) write_record({.level = level, .message = message});
}

}  // namespace io
