#include "agent/io/log.hpp"

#include "agent/io/systemd.hpp"
#include "policy/text.hpp"

#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace io {

namespace {

struct level_words {
    std::string_view word;
    std::string_view colour;  // ECMA-48 SGR
    char priority;            // syslog(3)
};

level_words words_of(severity level)
{
    switch (level) {
        case severity::error:
            return {"error", "\x1b[1;31m", '3'};
        case severity::warning:
            return {"warning", "\x1b[1;33m", '4'};
        case severity::info:
            return {"info", "\x1b[32m", '6'};
        case severity::debug:
            return {"debug", "\x1b[2m", '7'};
    }
    return {"error", "", '3'};
}

// Control characters (C0, DEL, C1) and characters that change text direction (Unicode UAX #9).
bool is_control(char32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void append_escaped(std::string& out, char c)
{
    switch (c) {
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            break;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<std::uint8_t>(c);
    out += "\\x";
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

std::string name_of(const log_subject& subject)
{
    if (subject.user.empty()) return subject.exposure;
    if (subject.exposure.empty()) return subject.user;  // a credential
    return subject.exposure + "/" + subject.user;
}

// The text after the level. Failure messages may already name their user, which is then not repeated.
std::string sentence(const log_record& record)
{
    std::string text;
    const auto subject = name_of(record.subject);
    if (!subject.empty() && record.message.find(subject) == std::string_view::npos)
        text += printable(subject) + ": ";
    text += printable(record.message);
    std::string_view separator = " (";
    for (const auto& [name, value] : record.fields) {
        text.append(separator).append(printable(name)).append("=").append(printable(value));
        separator = ", ";
    }
    if (!record.fields.empty()) text += ")";
    return text;
}

void append_member(std::string& json, std::string_view name, std::string_view value)
{
    const auto quoted = [&json](std::string_view text) {
        json += '"';
        for (const char c : printable(text)) {
            if (c == '"' || c == '\\') json += '\\';
            json += c;
        }
        json += '"';
    };
    if (json.size() > 1) json += ',';
    quoted(name);
    json += ':';
    quoted(value);
}

}  // namespace

std::string printable(std::string_view untrusted)
{
    std::string out;
    out.reserve(untrusted.size());
    while (!untrusted.empty()) {
        const auto [character, length] = policy::decode_utf8(untrusted);
        const auto sequence = untrusted.substr(0, length == 0 ? 1 : length);
        if (length != 0 && !is_control(character)) {
            out += sequence;
        } else {
            for (const char c : sequence)
                append_escaped(out, c);
        }
        untrusted.remove_prefix(sequence.size());
    }
    return out;
}

std::string text_line(const log_record& record, policy::instant now)
{
    return policy::format_utc(now) + " " + terminal_line(record, false);
}

std::string terminal_line(const log_record& record, bool colour)
{
    const auto words = words_of(record.level);
    std::string line;
    if (colour) line += words.colour;
    line += words.word;
    line += ':';
    if (colour) line += "\x1b[0m";
    return line + " " + sentence(record);
}

std::string prefixed_line(const log_record& record)
{
    return std::string("<") + words_of(record.level).priority + ">" + sentence(record);
}

std::string json_line(const log_record& record, policy::instant now)
{
    std::string json = "{";
    append_member(json, "time", policy::format_utc(now));
    append_member(json, "level", words_of(record.level).word);
    if (!record.event.name.empty()) append_member(json, "event", record.event.name);
    if (!record.subject.exposure.empty()) append_member(json, "exposure", record.subject.exposure);
    if (!record.subject.user.empty()) append_member(json, "user", record.subject.user);
    if (!record.subject.generation.empty()) append_member(json, "generation", record.subject.generation);
    append_member(json, "message", record.message);
    for (const auto& [name, value] : record.fields)
        append_member(json, name, value);
    return json + "}";
}

std::vector<std::string> journal_fields(const log_record& record)
{
    std::vector<std::string> fields;
    fields.push_back("MESSAGE=" + printable(record.message));
    fields.push_back(std::string("PRIORITY=") + words_of(record.level).priority);
    fields.emplace_back("SYSLOG_IDENTIFIER=exposure-agent");
    if (!record.event.message_id.empty())
        fields.push_back("MESSAGE_ID=" + std::string(record.event.message_id));
    if (!record.event.name.empty()) fields.push_back("EXPOSURE_EVENT=" + std::string(record.event.name));
    if (!record.subject.exposure.empty()) fields.push_back("EXPOSURE=" + record.subject.exposure);
    if (!record.subject.user.empty()) fields.push_back("EXPOSURE_USER=" + record.subject.user);
    if (!record.subject.generation.empty())
        fields.push_back("EXPOSURE_GENERATION=" + record.subject.generation);
    for (const auto& [name, value] : record.fields) {
        std::string field = "EXPOSURE_";
        for (const unsigned char c : name)
            field += std::isalnum(c) ? static_cast<char>(std::toupper(c)) : '_';
        fields.push_back(field + "=" + printable(value));
    }
    return fields;
}

namespace {

enum class sink { terminal, colour_terminal, prefixed, text, json, journal };

constexpr const char* clear_line = "\r\033[K";  // of a progress bar, which will be redrawn

// Set at start, before any thread exists; each line is one write(2), so that lines never mix.
struct log_settings {
    severity threshold = severity::info;
    sink to = sink::text;
};

log_settings& settings()
{
    static log_settings instance;
    return instance;
}

// systemd.exec(5), $JOURNAL_STREAM: device and inode of the journal stream.
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

// False when there is no journal.
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
    // If the log cannot be written, there is nowhere to report that.
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
