#include "policy/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string_view>

namespace {

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(names_of_this_machine)
{
    for (const std::string_view host : {"localhost", "a.localhost", "127.0.0.1", "127.255.0.9", "::1", "0::1",
                                        "::0:1", "::0001", "0:0:0:0:0:0:0:1", "0000:0::0:1"})
        BOOST_TEST(policy::is_loopback(host), host);
    for (const std::string_view host : {"",
                                        "localhost.example.com",
                                        "mylocalhost",
                                        "127.0.0",
                                        "127.0.0.1.1",
                                        "127.0.0.256",
                                        "127.0.0.01",
                                        "128.0.0.1",
                                        "127.0.0.1.example.com",
                                        "127.0.0.1x",
                                        "::",
                                        "::2",
                                        "::11",
                                        "1::1",
                                        "::1:1",
                                        ":1",
                                        "0:1",
                                        ":::1",
                                        "::0::1",
                                        "0:0:0:0:0:0:1",
                                        "0:0:0:0:0:0:0:0:1",
                                        "::ffff:1",
                                        "00000::1",
                                        "::00001",
                                        "::1%lo",
                                        "[::1]"})
        BOOST_TEST(!policy::is_loopback(host), host);
}

BOOST_AUTO_TEST_CASE(a_path_within_a_directory)
{
    for (const auto path : {"/srv/certs", "/srv/certs/", "/srv/certs/a", "/srv/certs/a/b"})
        BOOST_TEST(policy::is_within(path, "/srv/certs"), path);
    for (const auto path : {"", "/", "/srv", "/srv/cert", "/srv/certs2", "/srv/certs.d/a"})
        BOOST_TEST(!policy::is_within(path, "/srv/certs"), path);
    for (const auto path : {"/", "/srv"})
        BOOST_TEST(policy::is_within(path, "/"), path);
}

BOOST_AUTO_TEST_CASE(characters)
{
    const struct {
        std::string_view bytes;
        char32_t value;
        std::size_t length;
    } rows[] = {{"a", U'a', 1},
                {"\xc3\xa4", U'\u00e4', 2},
                {"\xe2\x82\xac", U'\u20ac', 3},
                {"\xf0\x9f\x94\x91", U'\U0001f511', 4},
                {"", 0, 0},
                {"\x80", 0, 0},
                {"\xc0\x80", 0, 0},          // overlong encoding
                {"\xe0\x80\x80", 0, 0},      // overlong encoding
                {"\xed\xa0\x80", 0, 0},      // UTF-16 surrogate
                {"\xf4\x90\x80\x80", 0, 0},  // beyond U+10FFFF
                {"\xe2\x82", 0, 0},          // truncated
                {"\xff", 0, 0}};
    for (const auto& [bytes, value, length] : rows) {
        const auto read = policy::decode_utf8(bytes);
        BOOST_TEST(static_cast<std::uint32_t>(read.value) == static_cast<std::uint32_t>(value));
        BOOST_TEST(read.length == length);
    }
    BOOST_TEST(policy::decode_utf8("a\xc3\xa4", 1).length == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
