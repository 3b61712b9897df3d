#include "config/values.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace data = boost::unit_test::data;

namespace {

using durations = std::vector<std::pair<std::string, std::int64_t>>;

const durations right = {{"0s", 0},
                         {"1s", 1},
                         {"90s", 90},
                         {"15m", 900},
                         {"12h", 43200},
                         {"30d", 2592000},
                         {"2w", 1209600},
                         {"1d12h", 129600},
                         {"1h1s", 3601},
                         {"1w1d1h1m1s", 694861},
                         {"999999999s", 999999999}};
const std::vector<std::string> wrong = {"",    "s",    "90",   "-1s",   "+1s",  "1 s",  " 1s",        "1s ",
                                        "1S",  "1.5h", "1h1h", "1s1h",  "010s", "1ms",  "1y",         "0x1s",
                                        "1h1", "h1",   "١s",   "1d 2h", "1_0s", "1e3s", "1000000000s"};

}  // namespace

BOOST_AUTO_TEST_SUITE(scalars)

BOOST_AUTO_TEST_CASE(durations_are_read)
{
    for (const auto& [text, seconds] : right) {
        const auto read = config::read_duration(text);
        BOOST_REQUIRE_MESSAGE(read, text);
        BOOST_TEST(read->count() == seconds, text);
    }
}

BOOST_DATA_TEST_CASE(what_is_no_duration_is_refused, data::make(wrong), text)
{
    BOOST_TEST(!config::read_duration(text));
}

BOOST_AUTO_TEST_CASE(a_lead_is_a_share_or_a_duration)
{
    BOOST_TEST((config::read_lead("33%") == policy::lead(policy::percent{33})));
    BOOST_TEST((config::read_lead("90d") == policy::lead(policy::duration(90 * 24h))));
    for (const auto* text : {"33", "%", "-3%", "3.5%", "033%", "33 %", "33%%"})
        BOOST_TEST(!config::read_lead(text), text);
}

BOOST_AUTO_TEST_CASE(integers_are_plain_decimals)
{
    BOOST_TEST((config::read_integer("0") == 0));
    BOOST_TEST((config::read_integer("10") == 10));
    BOOST_TEST((config::read_integer("999999999") == 999999999));
    for (const auto* text :
         {"", "010", "00", "0x10", "0o10", "1_000", "+1", "-1", "1.0", "1e3", " 1", "1000000000", ".inf"})
        BOOST_TEST(!config::read_integer(text), text);
}

BOOST_AUTO_TEST_CASE(booleans_are_two_words)
{
    BOOST_TEST((config::read_boolean("true") == true));
    BOOST_TEST((config::read_boolean("false") == false));
    for (const auto* text : {"", "True", "TRUE", "yes", "no", "on", "off", "y", "n", "1", "0"})
        BOOST_TEST(!config::read_boolean(text), text);
}

BOOST_AUTO_TEST_CASE(modes_are_octal_digits)
{
    for (const auto* text : {"0640", "640"})
        BOOST_TEST((config::read_mode(text) == 0640u), text);
    BOOST_TEST((config::read_mode("0600") == 0600u));
    for (const auto* text : {"", "64", "0o640", "0999", "4640", "00640", "rw-r-----", "-640", "0x1a0", "6 0"})
        BOOST_TEST(!config::read_mode(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
