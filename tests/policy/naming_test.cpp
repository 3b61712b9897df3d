#include "policy/naming.hpp"

#include <boost/test/unit_test.hpp>

namespace {

using policy::find_marker;

const std::string whole = "[exposure-agent owner=web-01 user=logs/siem key=0123456789abcdef]";

std::string read(std::string_view description)
{
    const auto found = find_marker(description);
    return found ? found->owner + " " + found->name.text() + " " + found->key : "none";
}

BOOST_AUTO_TEST_SUITE(naming)

BOOST_AUTO_TEST_CASE(finds_a_marker_wherever_it_stands)
{
    const std::string expected = "web-01 logs/siem 0123456789abcdef";
    for (const auto& text : {whole, "SIEM " + whole, whole + " SIEM", "a " + whole + " b", "[" + whole + "]",
                             "line\n" + whole + "\nline", "[exposure-agent " + whole,
                             whole + " [exposure-agent owner=", "[exposure-agent ]" + whole})
        BOOST_TEST(read(text) == expected, text);
}

BOOST_AUTO_TEST_CASE(the_last_complete_marker_counts)
{
    const std::string other = "[exposure-agent owner=b user=logs/x key=ffffffffffffffff]";
    BOOST_TEST(read(other + whole) == "web-01 logs/siem 0123456789abcdef");
    BOOST_TEST(read(whole + other) == "b logs/x ffffffffffffffff");
}

BOOST_AUTO_TEST_CASE(a_broken_marker_is_none)
{
    for (const std::string text :
         {"", "SIEM forwarder", "exposure-agent owner=web-01", "[exposure-agent]", "[exposure-agent ]",
          "[exposure-agent owner=web-01 user=logs/siem key=0123456789abcdef",
          "[exposure-agent owner=web-01 user=logs/siem key=0123456789abcde]",
          "[exposure-agent owner=web-01 user=logs/siem key=0123456789abcdeg]",
          "[exposure-agent owner=web-01 user=logs/siem key=0123456789ABCDEF]",
          "[exposure-agent owner=web-01 user=logs-siem key=0123456789abcdef]",
          "[exposure-agent owner= user=logs/siem key=0123456789abcdef]",
          "[exposure-agent user=logs/siem owner=web-01 key=0123456789abcdef]",
          "[exposure-agent owner=web-01 user=logs/siem key=0123456789abcdef more=1]",
          "[exposure-agent  owner=web-01 user=logs/siem key=0123456789abcdef]",
          "[exposure-agentowner=web-01 user=logs/siem key=0123456789abcdef]",
          "[Exposure-Agent owner=web-01 user=logs/siem key=0123456789abcdef]"})
        BOOST_TEST(read(text) == "none", text);
}

BOOST_AUTO_TEST_CASE(what_is_described_is_found_again)
{
    const policy::marker mark{
        .owner = "web-01", .name = {"logs", "siem"}, .key = policy::marker_key(std::string(64, 'a'))};
    BOOST_TEST(policy::describe("", mark) == policy::marker_text(mark));
    BOOST_TEST(policy::describe("SIEM", mark) == "SIEM " + policy::marker_text(mark));
    BOOST_TEST((find_marker(policy::describe("text [with] brackets", mark)) == mark));
    BOOST_TEST((find_marker(policy::describe(whole, mark)) == mark));
}

BOOST_AUTO_TEST_CASE(a_description_is_cut_off_while_a_part_of_the_marker_is_left)
{
    const auto sent = "SIEM " + whole;
    BOOST_TEST(policy::is_cut_off(sent.substr(0, sent.size() - 1), sent));
    BOOST_TEST(policy::is_cut_off("SIEM [exposure-agent ", sent));
    BOOST_TEST(!policy::is_cut_off(sent, sent));
    BOOST_TEST(!policy::is_cut_off("SIEM", sent));  // as if the marker had been removed
    BOOST_TEST(!policy::is_cut_off("", sent));
    BOOST_TEST(!policy::is_cut_off("mine [exposure-agent ", sent));
}

BOOST_AUTO_TEST_CASE(a_sentence_names_whom_it_is_about)
{
    const policy::user_name siem{"logs", "siem"};
    for (const std::string said : {"logs/siem: hook failed", "cannot verify logs/siem: no answer"})
        BOOST_TEST(policy::about(siem, said) == said);
    for (const std::string said :
         {"the budget is used up; run: exposure-agent rotate logs/siem",
          "/var/lib/exposure-agent/live/logs/siem/current/key.pem was changed", "logs/siem-2: hook failed"})
        BOOST_TEST(policy::about(siem, said) == "logs/siem: " + said);
}

BOOST_AUTO_TEST_CASE(common_names)
{
    using policy::variant;
    BOOST_TEST(policy::common_name(variant::log, "orion-123", "siem", "9f3c2a1b") ==
               "logs-orion-123-siem-9f3c2a1b");
    BOOST_TEST(policy::common_name(variant::health, "t", "u", "00000000") == "health-t-u-00000000");
    BOOST_TEST(policy::common_name(variant::lifecycle, "t", "u", "00000000") == "lifecycle-t-u-00000000");
    BOOST_TEST(policy::generation_id(std::string(64, 'a')) == "aaaaaaaa");
    BOOST_TEST(policy::is_generation_id("0123abcd"));
    for (const auto* no : {"", "0123abc", "0123abcde", "0123ABCD", "../../ab", "current"})
        BOOST_TEST(!policy::is_generation_id(no), no);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
