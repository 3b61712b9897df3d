#include "config/values.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace std::string_literals;

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(names_of_entries)
{
    for (const auto& text : {"a"s, "0"s, "siem-forwarder"s, "-a"s, std::string(64, 'a')})
        BOOST_TEST(config::is_name(text), text);
    for (const auto& text : {""s, "a-"s, "A"s, "a_b"s, "a.b"s, ".."s, "a/b"s, "a b"s, "é"s, "a\n"s, "a\0"s,
                             std::string(65, 'a')})
        BOOST_TEST(!config::is_name(text), text);
}

BOOST_AUTO_TEST_CASE(owners_tenants_topics)
{
    BOOST_TEST(config::is_owner("Web_01.example-x"));
    BOOST_TEST(!config::is_owner("a b"));
    BOOST_TEST(!config::is_owner("a]"));
    BOOST_TEST(!config::is_owner(std::string(65, 'a')));
    BOOST_TEST(config::is_tenant("orion-123"));
    BOOST_TEST(!config::is_tenant(".."));
    BOOST_TEST(!config::is_tenant("a/b"));
    BOOST_TEST(config::is_topic("logs-orion-123"));
    BOOST_TEST(!config::is_topic(".."));
    BOOST_TEST(!config::is_topic(std::string(250, 'a')));
}

BOOST_AUTO_TEST_CASE(mail_addresses)
{
    for (const auto* text : {"team@example.com", "a+b@x", "o'neil@a.b"})
        BOOST_TEST(config::is_email(text), text);
    for (const auto* text :
         {"", "team", "@example.com", "team@", "a b@example.com", "a@b@c", "A <a@example.com>", "a@b,c@d"})
        BOOST_TEST(!config::is_email(text), text);
}

BOOST_AUTO_TEST_CASE(units_get_their_type)
{
    BOOST_TEST((config::unit_name("vector.service") == "vector.service"));
    BOOST_TEST((config::unit_name("vector") == "vector.service"));
    BOOST_TEST((config::unit_name("my.app") == "my.app.service"));
    BOOST_TEST((config::unit_name("getty@tty1.service") == "getty@tty1.service"));
    BOOST_TEST((config::unit_name("backup.timer") == "backup.timer"));
    for (const auto& text : {""s, "--all"s, "a b.service"s, "../x.service"s, "a;b"s, "app@.service"s, "app@"s,
                             ".service"s, "*.service"s, std::string(250, 'a')})
        BOOST_TEST(!config::unit_name(text), text);
}

BOOST_AUTO_TEST_CASE(paths_stay_where_they_are)
{
    for (const auto& text : {"/"s, "/etc/a"s, "/etc//a/"s, "/etc/./a"s, "/etc/a..b"s, "/etc/..."s})
        BOOST_TEST(config::is_path(text), text);
    for (const auto& text : {""s, "etc/a"s, "./a"s, "~/a"s, "/.."s, "/etc/../a"s, "/etc/a/.."s, "/a\n"s,
                             "/a\0b"s, "/" + std::string(256, 'a'), std::string(4096, '/')})
        BOOST_TEST(!config::is_path(text), text);
    BOOST_TEST(config::normalised("/etc//./a/") == "/etc/a");
    BOOST_TEST(config::normalised("//") == "/");
}

BOOST_AUTO_TEST_CASE(accounts_variables_credentials)
{
    for (const auto* text :
         {"root", "0", "4294967294", "www-data", "svc$", "EXAMPLE\\svc", "a.b@example.com"})
        BOOST_TEST(config::is_account(text), text);
    for (const auto* text : {"", "-x", "a:b", "a b", "a/b", "a\n", "4294967295", "99999999999999999999"})
        BOOST_TEST(!config::is_account(text), text);
    BOOST_TEST(config::is_variable("CLIENT_SECRET"));
    BOOST_TEST(!config::is_variable("1A"));
    BOOST_TEST(!config::is_variable("A-B"));
    BOOST_TEST(config::is_credential("exposure-agent.secret"));
    BOOST_TEST(!config::is_credential("../x"));
    BOOST_TEST(!config::is_credential(".."));
}

BOOST_AUTO_TEST_SUITE_END()
