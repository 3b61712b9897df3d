#include "config/values.hpp"
#include "policy/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(addresses)

BOOST_AUTO_TEST_CASE(urls_have_parts)
{
    const auto url = config::read_url("HTTPS://login.example.com:8443/SAAS/t/orion-123");
    BOOST_REQUIRE(url);
    BOOST_TEST(url->scheme == "https");
    BOOST_TEST(url->host == "login.example.com");
    BOOST_TEST((url->port == 8443));
    BOOST_TEST(url->path == "/SAAS/t/orion-123");

    const auto v6 = config::read_url("http://[::1]");
    BOOST_REQUIRE(v6);
    BOOST_TEST(v6->host == "::1");
    BOOST_TEST(!v6->port);
    BOOST_TEST(v6->path.empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_url)
{
    for (const auto* text : {"",
                             "example.com",
                             "https://",
                             "https:///x",
                             "https://a b",
                             "https://u@example.com",
                             "https://u:p@example.com",
                             "https://example.com?x=1",
                             "https://example.com/#f",
                             "https://example.com:",
                             "https://example.com:0",
                             "https://example.com:65536",
                             "https://example.com:4x",
                             "https://1.2.3",
                             "https://[::g]",
                             "https://[::1",
                             "https://::1",
                             "https://-a.example.com",
                             "https://a..b",
                             "https://example.com/a b",
                             "https://exa\nmple.com"})
        BOOST_TEST(!config::read_url(text), text);
}

BOOST_AUTO_TEST_CASE(hosts_with_ports)
{
    const auto one = config::read_host_port("broker.example.com:9093");
    BOOST_REQUIRE(one);
    BOOST_TEST(one->host == "broker.example.com");
    BOOST_TEST(one->port == 9093);
    BOOST_TEST(config::read_host_ports("a:1,[::1]:2,10.0.0.1:3")->size() == 3);
    for (const auto* text :
         {"", "a", "a:", ":1", "a:1,", ",a:1", "a:1, b:2", "a:1;b:2", "https://a:1", "::1:80"})
        BOOST_TEST(!config::read_host_ports(text), text);
}

BOOST_AUTO_TEST_CASE(loopback)
{
    for (const auto* host : {"localhost", "127.0.0.1", "127.255.0.3", "::1", "0:0:0:0:0:0:0:1"})
        BOOST_TEST(policy::is_loopback(host), host);
    for (const auto* host :
         {"", "localhost.example.com", "128.0.0.1", "0.0.0.0", "::", "127.0.0.1.example.com"})
        BOOST_TEST(!policy::is_loopback(host), host);
}

BOOST_AUTO_TEST_SUITE_END()
