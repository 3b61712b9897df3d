#include "agent/io/url.hpp"

#include <boost/test/unit_test.hpp>

using io::http_address;

namespace {

http_address https(std::string host, std::uint16_t port = 443)
{
    return {.tls = true, .host = std::move(host), .port = port, .target = "/"};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_proxy)

BOOST_AUTO_TEST_CASE(addresses_are_taken_apart)
{
    const struct {
        const char* url;
        http_address expected;
        const char* host_header;
        const char* origin;
    } table[] = {
        {"https://les.example.com",
         {true, "les.example.com", 443, "/"},
         "les.example.com",
         "https://les.example.com:443"},
        {"HTTPS://LES.Example.com:8443/a%20b?x=1%2F2&y",
         {true, "les.example.com", 8443, "/a%20b?x=1%2F2&y"},
         "les.example.com:8443",
         "https://les.example.com:8443"},
        {"https://[::1]:9/p", {true, "::1", 9, "/p"}, "[::1]:9", "https://[::1]:9"},
        {"https://[2001:db8::1]/",
         {true, "2001:db8::1", 443, "/"},
         "[2001:db8::1]",
         "https://[2001:db8::1]:443"},
        {"http://127.0.0.1:80/", {false, "127.0.0.1", 80, "/"}, "127.0.0.1", "http://127.0.0.1:80"},
        {"http://localhost:8080?q",
         {false, "localhost", 8080, "/?q"},
         "localhost:8080",
         "http://localhost:8080"},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.url)
        {
            const auto parsed = io::parse_http_address(row.url);
            BOOST_REQUIRE(parsed.has_value());
            BOOST_TEST((*parsed == row.expected));
            BOOST_TEST(io::host_header(*parsed) == row.host_header);
            BOOST_TEST(io::origin(*parsed) == row.origin);
        }
    }
}

BOOST_AUTO_TEST_CASE(unusable_addresses_are_refused)
{
    for (const char* url :
         {"", "les.example.com", "/path", "ftp://les.example.com", "http://les.example.com",
          "http://10.0.0.1", "https://user:secret@les.example.com", "https://les.example.com/#x", "https://",
          "https://les.example.com:0/", "https://les.example.com:99999/", "https://les.exa%0dmple.com/",
          "https://les.example.com/\r\nX: y", "https://[::1]443/", "https://les.44%3a0/"}) {
        BOOST_TEST_CONTEXT(url)
        {
            const auto parsed = io::parse_http_address(url);
            BOOST_REQUIRE(parsed.has_error());
            BOOST_TEST((parsed.error().code == policy::errc::config));
            BOOST_TEST(parsed.error().context.find("secret") == std::string::npos);
        }
    }
}

BOOST_AUTO_TEST_CASE(no_proxy_is_read_as_everybody_reads_it)
{
    const struct {
        const char* list;
        http_address to;
        bool bypassed;
    } table[] = {
        {"", https("a.example.com"), false},
        {"*", https("a.example.com"), true},
        {"example.com", https("example.com"), true},
        {"example.com", https("a.example.com"), true},
        {"example.com", https("badexample.com"), false},
        {"example.com", https("example.com.org"), false},
        {".example.com", https("a.b.example.com"), true},
        {".example.com", https("example.com"), true},
        {"*.example.com", https("a.example.com"), true},
        {"EXAMPLE.com.", https("a.example.com"), true},
        {"example.com", https("a.example.com."), true},
        {"other.org, example.com", https("a.example.com"), true},
        {"other.org example.com", https("a.example.com"), true},
        {",, ,", https("a.example.com"), false},
        {"example.com:443", https("a.example.com"), true},
        {"example.com:8443", https("a.example.com"), false},
        {"10.0.0.1", https("10.0.0.1"), true},
        {"10.0.0.1:443", https("10.0.0.1"), true},
        {"0.0.1", https("10.0.0.1"), false},
        {"10.0.0.0/8", https("10.200.3.4"), true},
        {"10.1.2.3/8", https("10.200.3.4"), true},
        {"10.0.0.0/8", https("11.0.0.1"), false},
        {"10.0.0.0/8", https("ten.example.com"), false},
        {"10.0.0.0/99", https("10.0.0.1"), false},
        {"192.168.0.0/16,127.0.0.0/8", https("127.0.0.1"), true},
        {"::1", https("::1"), true},
        {"[::1]:443", https("::1"), true},
        {"[::1]:444", https("::1"), false},
        {"2001:db8::/32", https("2001:db8:1::5"), true},
        {"2001:db8::/32", https("2001:db9::5"), false},
        {"0:0:0:0:0:0:0:1", https("::1"), true},
        {"localhost", https("localhost"), true},
        {".", https("a.example.com"), false},
        {":", https("a.example.com"), false},
    };
    for (const auto& row : table)
        BOOST_TEST_CONTEXT(row.list << " for " << row.to.host)
    BOOST_TEST(io::bypasses_proxy(row.to, row.list) == row.bypassed);
}

BOOST_AUTO_TEST_CASE(the_proxy_is_chosen)
{
    const struct {
        const char* what;
        http_address to;
        std::optional<std::string> configured;
        io::proxy_environment environment;
        const char* expected;  // empty: no proxy
    } table[] = {
        {"none", https("a.example.com"), {}, {}, ""},
        {"environment", https("a.example.com"), {}, {"http://p.example.com:3128", {}}, "p.example.com:3128"},
        {"configured first",
         https("a.example.com"),
         "http://c.example.com:1",
         {"http://p.example.com:2", {}},
         "c.example.com:1"},
        {"configured none", https("a.example.com"), "", {"http://p.example.com:2", {}}, ""},
        {"no scheme", https("a.example.com"), {}, {"p.example.com:3128", {}}, "p.example.com:3128"},
        {"no port", https("a.example.com"), {}, {"http://p.example.com/", {}}, "p.example.com:80"},
        {"IPv6", https("a.example.com"), {}, {"http://[::1]:3128", {}}, "[::1]:3128"},
        {"NO_PROXY", https("a.example.com"), {}, {"http://p.example.com:2", "example.com"}, ""},
        {"NO_PROXY and configured",
         https("a.example.com"),
         "http://c.example.com:1",
         {{}, "example.com"},
         ""},
        {"loopback over TLS, as curl",
         https("127.0.0.1"),
         {},
         {"http://p.example.com:2", {}},
         "p.example.com:2"},
        {"plain http", {false, "127.0.0.1", 80, "/"}, "http://c.example.com:1", {}, ""},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            const auto chosen = io::proxy_for(row.to, row.configured, row.environment);
            BOOST_REQUIRE(chosen.has_value());
            const auto text = *chosen ? io::host_and_port((*chosen)->host, (*chosen)->port) : std::string();
            BOOST_TEST(text == row.expected);
        }
    }
}

BOOST_AUTO_TEST_CASE(credentials_of_the_proxy_become_its_header)
{
    const auto chosen = io::proxy_for(https("a.example.com"), "http://al%40ice:s%3Acret@p.example.com:1", {});
    BOOST_REQUIRE(chosen.has_value() && chosen->has_value());
    BOOST_TEST((**chosen).authorization->view() == "Basic YWxAaWNlOnM6Y3JldA==");
    const auto without = io::proxy_for(https("a.example.com"), "http://p.example.com:1", {});
    BOOST_TEST(!(**without).authorization.has_value());
}

BOOST_AUTO_TEST_CASE(an_unusable_proxy_is_named_without_its_secrets)
{
    for (const char* url :
         {"https://u:hidden@p.example.com", "http://u:hidden@", "http://u:hidden@p.example.com:0",
          "socks5://u:hidden@p", "http://u:hidden@p .example.com", "http://u:hidden@p%0d%0aX", "http://u:hidden@p%3a1:2"}) {
        BOOST_TEST_CONTEXT(url)
        {
            const auto chosen = io::proxy_for(https("a.example.com"), url, {});
            BOOST_REQUIRE(chosen.has_error());
            BOOST_TEST((chosen.error().code == policy::errc::not_connected));
            BOOST_TEST(chosen.error().context.find("hidden") == std::string::npos);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
