#include "agent/io/url.hpp"
#include "agent/platform/response.hpp"
#include "policy/dates.hpp"

#include <boost/test/unit_test.hpp>

#include <array>

namespace {

const auto now = *policy::parse_date("2026-03-01T12:00:00Z");

policy::failure meaning(unsigned status, std::string body = {},
                        std::map<std::string, std::string> headers = {})
{
    return platform::failure_of({.status = status, .headers = std::move(headers), .body = std::move(body)},
                                "exposure logs: list users", "les.example.com", now);
}

bool says(const policy::failure& failure, std::string_view text)
{
    return failure.context.find(text) != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(platform_status)

BOOST_AUTO_TEST_CASE(every_class_has_its_meaning)
{
    using policy::errc;
    using policy::retry;
    const struct {
        unsigned status;
        errc code;
        retry kind;
    } rows[] = {
        {302, errc::bad_answer, retry::later},          {304, errc::bad_answer, retry::later},
        {100, errc::bad_answer, retry::later},          {400, errc::refused, retry::after_change},
        {401, errc::unauthorized, retry::after_change}, {403, errc::forbidden, retry::after_change},
        {404, errc::not_found, retry::later},           {405, errc::refused, retry::after_change},
        {408, errc::throttled, retry::later},           {409, errc::refused, retry::after_change},
        {410, errc::not_found, retry::later},           {422, errc::refused, retry::after_change},
        {425, errc::throttled, retry::later},           {429, errc::throttled, retry::later},
        {500, errc::unavailable, retry::later},         {502, errc::unavailable, retry::later},
        {503, errc::unavailable, retry::later},
    };
    for (const auto& row : rows)
        BOOST_TEST_CONTEXT(row.status)
        {
            const auto failure = meaning(row.status);
            BOOST_CHECK(failure.code == row.code);
            BOOST_CHECK(failure.kind == row.kind);
            BOOST_TEST(says(failure, "exposure logs: list users: les.example.com answered " +
                                         std::to_string(row.status)));
        }
}

BOOST_AUTO_TEST_CASE(retry_after_in_both_forms)
{
    const auto wait = [](const char* value) {
        return meaning(503, "", {{"retry-after", value}}).retry_after;
    };
    BOOST_CHECK(wait("120") == policy::duration(120));
    BOOST_CHECK(wait("Sun, 01 Mar 2026 12:05:00 GMT") == policy::duration(300));
    BOOST_CHECK(wait("Sun, 01 Mar 2026 11:00:00 GMT") == policy::duration(0));
    BOOST_CHECK(wait("999999999") == policy::duration(std::chrono::hours(24)));
    BOOST_CHECK(!wait("soon"));
    BOOST_CHECK(!meaning(503).retry_after);
}

BOOST_AUTO_TEST_CASE(a_redirect_names_the_host_alone)
{
    const auto failure = meaning(302, "", {{"location", "https://login.example.com/x?ticket=opensesame"}});
    BOOST_TEST(says(failure, "login.example.com"));
    BOOST_TEST(!says(failure, "opensesame"));
}

BOOST_AUTO_TEST_CASE(reasons_of_every_shape)
{
    using platform::reason_in;
    BOOST_TEST(reason_in(R"({"message": "no such group"})") == "no such group");
    BOOST_TEST(reason_in(R"({"error": "invalid_grant", "error_description": "expired"})") ==
               "invalid_grant: expired");
    BOOST_TEST(reason_in(R"({"error": {"message": "inner"}})") == "inner");
    BOOST_TEST(reason_in(R"({"title": "Bad", "detail": "worse", "status": 400})") == "Bad: worse");
    BOOST_TEST(reason_in(R"({"errors": [{"code": 12017, "message": "a"}, "b"]})") == "12017: a; b");
    BOOST_TEST(reason_in("plain words\n") == "plain words");
    BOOST_TEST(reason_in("<html>x</html>") == "");
    BOOST_TEST(reason_in("<html><head><title>413 Request Entity Too Large</title></head>") ==
               "413 Request Entity Too Large");
    BOOST_TEST(reason_in("<HTML><HEAD><TITLE lang=en>Bad Request</TITLE>") == "Bad Request");
    BOOST_TEST(reason_in("<html><title") == "");
    BOOST_TEST(reason_in("<html><head><title>502 Bad\nGateway</title>") == "502 Bad Gateway");
    BOOST_TEST(reason_in("{broken") == "");
    BOOST_TEST(reason_in("") == "");
}

BOOST_AUTO_TEST_CASE(foreign_text_is_tamed)
{
    using platform::redact;
    BOOST_TEST(redact("a\r\n\tb\x1b[31mc") == "a b [31mc");
    BOOST_TEST(redact(std::string(1000, 'x') + " y") == "[hidden] y");
    BOOST_TEST(redact("got Bearer abc, said") == "got Bearer [hidden], said");
    BOOST_TEST(redact("id 123e4567-e89b-12d3-a456-426614174000") ==
               "id 123e4567-e89b-12d3-a456-426614174000");
    const std::array hidden = {std::string_view("opensesame"), std::string_view()};
    BOOST_TEST(redact("token opensesame!", hidden) == "token [hidden]!");
    const std::array spelled = {std::string_view("sesame"), std::string_view("a+b/c= d%41"),
                                std::string_view("opensesame")};
    BOOST_TEST(redact("code=opensesame", spelled) == "code=[hidden]");
    for (const auto text :
         {"t=a+b/c= d%41!", "t=a%2Bb%2fc%3D%20d%2541!", "t=a%2Bb%2Fc%3D+d%2541!", R"(t=a\u002bb\/c= d%41!)"})
        BOOST_TEST(redact(text, spelled) == "t=[hidden]!", text);
    BOOST_TEST(redact("t=a%2Bb%2Fc%3D%2", spelled) == "t=a%2Bb%2Fc%3D%2");
    std::string long_text;
    while (long_text.size() < 400)
        long_text += "\xC3\xA4 ";
    BOOST_TEST(redact(long_text).size() <= platform::shown_length + 3);
    BOOST_TEST(redact(long_text).ends_with("..."));
}

BOOST_AUTO_TEST_CASE(parts_of_addresses)
{
    BOOST_TEST(io::escaped("a b/c?d%e\xC3\xA4~-._") == "a%20b%2Fc%3Fd%25e%C3%A4~-._");
    BOOST_TEST(io::form({{"a", "1 2"}, {"b", "&="}}) == "a=1%202&b=%26%3D");
    BOOST_TEST(io::unescaped("a%20b+c%zz%4", true) == "a b c%zz%4");
    BOOST_TEST(io::unescaped("a+b%2B", false) == "a+b+");
    BOOST_TEST(io::host_of("https://les.example.com:8443/api/v1") == "les.example.com:8443");
    BOOST_TEST(io::host_of("https://user:pw@les.example.com?x") == "les.example.com");
    BOOST_TEST(io::host_of("/relative") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
