#include "crypto/digest.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <vector>

namespace {

struct vector {
    std::string bytes;
    std::string text;
};

std::ostream& operator<<(std::ostream& out, const vector& v)
{
    return out << '"' << v.text << '"';
}

// RFC 4648 section 10, and all 64 characters of the alphabet
const std::vector<vector> encoded = {{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"},
                                     {std::string("\xfb\xff\xbf\0", 4), "+/+/AA=="}};

// base64 variants produced by people and gateways
const std::vector<vector> tolerated = {
    {"foob", "Zm9vYg"}, {"foob", "Zm9v\r\nYg==\n"}, {"foob", " Z m9v\tYg = ="}, {"\xfb\xff\xbf", "-_-_"}};

const std::vector<std::string> refused = {"Z",    "Zm9vY", "Zg===", "Zm9v=",    "Zm=9v",
                                          "Z*9v", "====",  "Zg=",   "\xc3\xa4", "Zm9v\\n"};

BOOST_AUTO_TEST_SUITE(digest)

BOOST_AUTO_TEST_CASE(sha256_of_the_standard)  // FIPS 180-2 appendix B
{
    BOOST_TEST(crypto::sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    BOOST_TEST(crypto::sha256_hex("abc") ==
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

BOOST_DATA_TEST_CASE(base64_both_ways, encoded)
{
    BOOST_TEST(crypto::base64(sample.bytes) == sample.text);
    BOOST_TEST(crypto::base64_decode(sample.text).value() == sample.bytes);
}

BOOST_DATA_TEST_CASE(base64_read_tolerantly, tolerated)
{
    BOOST_TEST(crypto::base64_decode(sample.text).value() == sample.bytes);
}

BOOST_DATA_TEST_CASE(base64_refused, refused)
{
    BOOST_TEST(!crypto::base64_decode(sample).has_value());
}

BOOST_AUTO_TEST_CASE(random_differs)
{
    const auto first = crypto::random_hex(16);
    BOOST_TEST(first.size() == 32u);
    BOOST_TEST(first.find_first_not_of("0123456789abcdef") == std::string::npos);
    BOOST_TEST(first != crypto::random_hex(16));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
