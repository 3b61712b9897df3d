#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "agent/io/systemd.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <set>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using io::log_record;
using io::severity;

namespace {

const policy::instant noon{std::chrono::sys_days(std::chrono::year(2026) / 11 / 20) + std::chrono::hours(12)};

log_record rotated()
{
    return {.level = severity::info,
            .event = io::events::rotated,
            .subject = {"logs", "siem-forwarder", "9f3c2a1b"},
            .message = "a new certificate is in use",
            .fields = {{"serial", "01"}}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_log)

BOOST_AUTO_TEST_CASE(untrusted_text_cannot_steer_anything)
{
    const struct {
        std::string text;
        std::string shown;
    } table[] = {
        {"plain, with umlauts: \xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x91",
         "plain, with umlauts: \xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x91"},
        {"two\nlines\r\n\tand", "two\\nlines\\r\\n\\tand"},
        {"\x1b[31mred", "\\x1b[31mred"},
        {std::string("a\0b", 3), "a\\x00b"},
        {"\x7f", "\\x7f"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},  // CSI as a single C1 character
        {"a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xaeb"},  // U+202E, right-to-left override
        {"\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", "\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c"},
        {"\xe2\x80\xa6 \xe2\x80\x9c", "\xe2\x80\xa6 \xe2\x80\x9c"},  // an ellipsis and a quotation mark
        {"\xff\xfe", "\\xff\\xfe"},                                  // not UTF-8
        {"\xc0\xaf", "\\xc0\\xaf"},                                  // overlong
        {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},                         // overlong
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                         // surrogate
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},                // beyond U+10FFFF
        {"cut \xe2\x82", "cut \\xe2\\x82"},
    };
    for (const auto& row : table)
        BOOST_TEST(io::printable(row.text) == row.shown);
}

BOOST_AUTO_TEST_CASE(a_line_for_a_file)
{
    BOOST_TEST(io::text_line(rotated(), noon) ==
               "2026-11-20T12:00:00Z info: logs/siem-forwarder: a new certificate is in use (serial=01)");
    BOOST_TEST(io::text_line({.level = severity::error, .message = "x\ny"}, noon) ==
               "2026-11-20T12:00:00Z error: x\\ny");
}

BOOST_AUTO_TEST_CASE(a_line_for_a_terminal_and_for_systemd)
{
    BOOST_TEST(io::terminal_line({.level = severity::warning, .message = "m"}, false) == "warning: m");
    BOOST_TEST(io::terminal_line({.level = severity::warning, .message = "m"}, true) ==
               "\x1b[1;33mwarning:\x1b[0m m");
    BOOST_TEST(io::prefixed_line(rotated()) ==
               "<6>logs/siem-forwarder: a new certificate is in use (serial=01)");
    BOOST_TEST(io::prefixed_line({.level = severity::error, .message = "m"}) == "<3>m");
}

BOOST_AUTO_TEST_CASE(a_subject_that_the_message_names_is_not_said_twice)
{
    auto record = rotated();
    record.message = "the certificate of logs/siem-forwarder is in use";
    record.fields.clear();
    BOOST_TEST(io::terminal_line(record, false) == "info: the certificate of logs/siem-forwarder is in use");
}

BOOST_AUTO_TEST_CASE(a_line_of_json)
{
    auto record = rotated();
    record.message = "a \"quoted\" \\ word\n";
    BOOST_TEST(
        io::json_line(record, noon) ==
        "{\"time\":\"2026-11-20T12:00:00Z\",\"level\":\"info\",\"event\":\"rotated\",\"exposure\":\"logs\","
        "\"user\":\"siem-forwarder\",\"generation\":\"9f3c2a1b\",\"message\":\"a \\\"quoted\\\" \\\\ "
        "word\\\\n\","
        "\"serial\":\"01\"}");
}

BOOST_AUTO_TEST_CASE(fields_for_the_journal)
{
    const auto fields = io::journal_fields(rotated());
    const auto has = [&](const std::string& field) {
        return std::find(fields.begin(), fields.end(), field) != fields.end();
    };
    BOOST_TEST(has("MESSAGE=a new certificate is in use"));
    BOOST_TEST(has("PRIORITY=6"));
    BOOST_TEST(has("MESSAGE_ID=" + std::string(io::events::rotated.message_id)));
    BOOST_TEST(has("EXPOSURE=logs"));
    BOOST_TEST(has("EXPOSURE_USER=siem-forwarder"));
    BOOST_TEST(has("EXPOSURE_GENERATION=9f3c2a1b"));
    BOOST_TEST(has("EXPOSURE_EVENT=rotated"));
    BOOST_TEST(has("EXPOSURE_SERIAL=01"));
    BOOST_TEST(io::journal_fields({.message = "m"}).size() == 3u);
}

BOOST_AUTO_TEST_CASE(the_sink_is_chosen_by_where_standard_error_leads)
{
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    const int standard_error = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    const char* invocation = std::getenv("INVOCATION_ID");
    const std::string invocation_before = invocation ? invocation : "";
    const auto logged = [&](severity threshold, io::log_format format) {
        ::dup2(ends[1], STDERR_FILENO);
        io::configure_log(threshold, format);
        io::log(severity::info, io::events::started, {}, "hello", {{"pid", "1"}});
        io::log(severity::debug, "details");
        ::dup2(standard_error, STDERR_FILENO);
        std::array<char, 1024> text{};
        const auto size = ::read(ends[0], text.data(), text.size());
        return size < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
    };

    ::unsetenv("INVOCATION_ID");
    const auto text = logged(severity::info, io::log_format::automatic);
    BOOST_TEST(text.substr(std::min<std::size_t>(text.size(), 20)) == " info: hello (pid=1)\n");
    BOOST_TEST(logged(severity::warning, io::log_format::text).empty());
    BOOST_TEST(!io::log_enabled(severity::info));
    BOOST_TEST(logged(severity::info, io::log_format::json).find("\"event\":\"started\"") !=
               std::string::npos);
    ::setenv("INVOCATION_ID", "0123", 1);
    BOOST_TEST(logged(severity::debug, io::log_format::text) == "<6>hello (pid=1)\n<7>details\n");

    invocation ? ::setenv("INVOCATION_ID", invocation_before.c_str(), 1) : ::unsetenv("INVOCATION_ID");
    io::configure_log(severity::info, io::log_format::automatic);
    for (const int fd : {ends[0], ends[1], standard_error})
        ::close(fd);
}

BOOST_AUTO_TEST_CASE(message_ids_are_well_formed_and_differ)
{
    std::set<std::string_view> seen;
    for (const auto& event : {io::events::rotated,
                              io::events::issued,
                              io::events::published,
                              io::events::deployed,
                              io::events::deploy_failed,
                              io::events::proof_failed,
                              io::events::retired,
                              io::events::removed,
                              io::events::adopted,
                              io::events::onboarded,
                              io::events::request_failed,
                              io::events::blocked,
                              io::events::incident,
                              io::events::repaired,
                              io::events::login_required,
                              io::events::logged_in,
                              io::events::refreshed,
                              io::events::refresh_failed,
                              io::events::credential_updated,
                              io::events::credential_failed,
                              io::events::configuration_loaded,
                              io::events::configuration_rejected,
                              io::events::started,
                              io::events::stopping,
                              io::events::stopped}) {
        BOOST_TEST(event.message_id.size() == 32u);
        BOOST_TEST(event.message_id.find_first_not_of("0123456789abcdef") == std::string_view::npos);
        BOOST_TEST(seen.insert(event.message_id).second);
    }
}

BOOST_AUTO_TEST_CASE(systemd_is_told)
{
    // An abstract socket in place of systemd's.
    const int receiver = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const std::string name = "exposure-agent-test-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    BOOST_REQUIRE(::bind(receiver, reinterpret_cast<const sockaddr*>(&address), length) == 0);
    const auto next = [&] {
        std::array<char, 512> text{};
        const auto size = ::recv(receiver, text.data(), text.size(), 0);
        return size < 0 ? std::string("nothing") : std::string(text.data(), static_cast<std::size_t>(size));
    };

    ::unsetenv("NOTIFY_SOCKET");
    io::notify::ready("nobody listens");
    BOOST_TEST(next() == "nothing");

    ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
    io::notify::ready("2 users\nREADY=0");
    BOOST_TEST(next() == "READY=1\nSTATUS=2 users\\nREADY=0");
    io::notify::status("next rotation tomorrow");
    BOOST_TEST(next() == "STATUS=next rotation tomorrow");
    io::notify::reloading();
    BOOST_TEST(next().rfind("RELOADING=1\nMONOTONIC_USEC=", 0) == 0u);
    io::notify::watchdog();
    BOOST_TEST(next() == "WATCHDOG=1");
    io::notify::extend_timeout(std::chrono::seconds(3));
    BOOST_TEST(next() == "EXTEND_TIMEOUT_USEC=3000000");
    io::notify::stopping("bye");
    BOOST_TEST(next() == "STOPPING=1\nSTATUS=bye");
    ::unsetenv("NOTIFY_SOCKET");
    ::close(receiver);

    BOOST_TEST(!io::notify::watchdog_interval().has_value());
    ::setenv("WATCHDOG_USEC", "30000000", 1);
    BOOST_TEST((io::notify::watchdog_interval() == std::chrono::seconds(30)));
    ::setenv("WATCHDOG_PID", "1", 1);
    BOOST_TEST(!io::notify::watchdog_interval().has_value());
    ::unsetenv("WATCHDOG_USEC");
    ::unsetenv("WATCHDOG_PID");
}

BOOST_AUTO_TEST_CASE(the_environment_is_read)
{
    ::setenv("EXPOSURE_AGENT_TEST", "", 1);
    BOOST_TEST((io::environment("EXPOSURE_AGENT_TEST") == std::optional<std::string>("")));
    ::unsetenv("EXPOSURE_AGENT_TEST");
    BOOST_TEST(!io::environment("EXPOSURE_AGENT_TEST").has_value());
    BOOST_TEST(!io::short_hostname().empty());
    BOOST_TEST(io::short_hostname().find('.') == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
