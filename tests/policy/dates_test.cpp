#include "policy/dates.hpp"

#include <boost/test/unit_test.hpp>

#include <initializer_list>

namespace {

using policy::format_utc;
using policy::parse_date;

std::string read(std::string_view text)
{
    const auto when = parse_date(text);
    return when ? format_utc(*when) : "none";
}

struct row {
    const char* text;
    const char* instant;
};

BOOST_AUTO_TEST_SUITE(dates)

BOOST_AUTO_TEST_CASE(reads_every_usual_spelling)
{
    constexpr auto expected = "2026-11-20T18:39:10Z";
    for (const char* text : {
             "2026-11-20T18:39:10Z",
             "2026-11-20T18:39:10z",
             "2026-11-20t18:39:10Z",
             "2026-11-20 18:39:10",
             "2026-11-20T18:39:10",
             "2026-11-20 18:39:10 UTC",
             "2026-11-20T18:39:10.Z",
             "2026-11-20T18:39:10.1Z",
             "2026-11-20T18:39:10.123Z",
             "2026-11-20T18:39:10,123Z",
             "2026-11-20T18:39:10.1234567Z",
             "2026-11-20T18:39:10.999999999Z",
             "2026-11-20T18:39:10.5",
             "2026-11-20T19:39:10+01:00",
             "2026-11-20T19:39:10+0100",
             "2026-11-20T19:39:10+01",
             "2026-11-20T13:09:10-05:30",
             "2026-11-20T18:39:10-00:00",
             "2026-11-21T00:39:10.25+06:00",
             "2026-11-20 19:39:10 +0100",
             "Fri, 20 Nov 2026 18:39:10 GMT",
             "Fri, 20 Nov 2026 18:39:10 UTC",
             "Fri, 20 Nov 2026 18:39:10 Z",
             "Fri, 20 Nov 2026 18:39:10",
             "Fri, 20 Nov 2026 19:39:10 +0100",
             "fri, 20 NOV 2026 18:39:10 gmt",
             "20 Nov 2026 18:39:10 GMT",
             "Fri Nov 20 18:39:10 2026",
             "Fri Nov 20 18:39:10 UTC 2026",
             "Nov 20 18:39:10 2026",
             "1795199950",
             "1795199950.5",
             "1795199950000",
             "1795199950999",
             "  2026-11-20T18:39:10Z\r\n",
         })
        BOOST_TEST_CONTEXT(text) BOOST_TEST(read(text) == expected);
}

BOOST_AUTO_TEST_CASE(knows_the_calendar)
{
    for (const auto& [text, instant] : std::initializer_list<row>{
             {"2026-11-20", "2026-11-20T00:00:00Z"},
             {"2026-11-20T18:39Z", "2026-11-20T18:39:00Z"},
             {"2024-02-29", "2024-02-29T00:00:00Z"},
             {"Mon, 1 Jan 2029 00:00:00 GMT", "2029-01-01T00:00:00Z"},
             {"Thu Jan  1 00:00:00 2026", "2026-01-01T00:00:00Z"},
             {"2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z"},
             {"2026-12-31T23:30:00-01:00", "2027-01-01T00:30:00Z"},
             {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
             {"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
             {"1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"},
             {"0", "1970-01-01T00:00:00Z"},
             {"99999999999", "5138-11-16T09:46:39Z"},
             {"100000000000", "1973-03-03T09:46:40Z"},
             {"253402300799999", "9999-12-31T23:59:59Z"},
         })
        BOOST_TEST_CONTEXT(text) BOOST_TEST(read(text) == instant);
}

BOOST_AUTO_TEST_CASE(refuses_the_rest)
{
    for (const char* text : {
             "",
             "   ",
             "never",
             "2026-02-30",
             "2025-02-29",
             "2026-13-01",
             "2026-00-10",
             "2026-11-00",
             "2026-11-20T",
             "2026-11-20T24:00:00Z",
             "2026-11-20T18:60:00Z",
             "2026-11-20T18:39:61Z",
             "2026-11-20T18:39:10.1234567890Z",
             "2026-11-20T18:39:10+24:00",
             "2026-11-20T18:39:10+01:60",
             "2026-11-20T18:39:10+01:",
             "2026-11-20T18:39:10+",
             "2026-11-20T18:39:10 CET",
             "2026-11-20T18:39:10Z!",
             "2026-11-20Z",
             "2026-1-2",
             "26-11-20",
             "20.11.2026",
             "11/20/2026",
             "9999-12-31T23:59:59-01:00",
             "0000-01-01T00:00:00+01:00",
             "Fri, 20 Foo 2026 18:39:10 GMT",
             "Fri, 31 Nov 2026 18:39:10 GMT",
             "Fri, 20 Nov 26 18:39:10 GMT",
             "Fri,",
             "Fri",
             "Nov",
             "-1795199950",
             "1795199950.5.5",
             "1.79e9",
             "253402300800000",
             "999999999999999",
             "1000000000000000",
             "99999999999999999999999999",
         })
        BOOST_TEST_CONTEXT(text) BOOST_TEST(read(text) == "none");
    BOOST_TEST(read(std::string_view("2026-11-20\0", 11)) == "none");
}

BOOST_AUTO_TEST_CASE(what_is_written_reads_back)
{
    for (const long long seconds : {0LL, 1LL, 951'782'400LL, 1'795'199'950LL, 253'402'300'799LL}) {
        const policy::instant when{policy::duration(seconds)};
        BOOST_CHECK(parse_date(format_utc(when)) == when);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
